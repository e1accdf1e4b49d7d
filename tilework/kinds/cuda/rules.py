"""The rules by which sketches for GPUs are derived, in order."""

from __future__ import annotations

import math

from tilework.kinds.cuda.mma_rules import tensor_cores
from tilework.kinds.cuda.row_chain import MOST_HELD, ROW_LANES, RowChain, find
from tilework.kinds.cuda.split import split_k, split_sum
from tilework.kinds.cuda.tiling import ACROSS, DIRECT, POINTS, ROWS, STAGED_DEPTH, TILED
from tilework.space.levels import Levels
from tilework.space.nests import Capability
from tilework.space.plan import At, Root, StagePlan
from tilework.space.ragged import ragged_block
from tilework.space.rfactor import contiguous_axis
from tilework.space.rules import (
    accesses,
    by_constants,
    consumers,
    elementwise_consumer,
    finished_reduction,
    has_limits,
    in_range,
    increasing,
    needs_tiling,
    ragged_reduction,
    simplify_const_tensor,
)
from tilework.space.state import Branch, Rules, State
from tilework.space.transforms import constant_transform
from tilework.space.winograd.rule import winograd
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis
from tilework.te.expr import Read, reads, walk
from tilework.te.tensor import Compute

_WARP = 32
_ACROSS_POINTS = 16 << 10
"""Most points of a product at which sharing the terms of each among threads may pay."""
_ACROSS_SHARE = 4
"""Most points for each of its terms there."""
_WINDOW = 256
"""Most terms of a window."""
_LONG_ROW, _MANY_ROWS = 8192, 64
"""Terms of a row, and number of rows, at which a kernel for each stage may be faster."""
_MOST_READS = 8
"""Places that an inlined stage is read in."""
_OCCUPIED = 2048
"""Points that keep a GPU half busy with a thread each."""


def row_chain(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Softmax, norms: all stages on a row in one kernel, which holds the row in registers.

    Offered beside the later rules where neighbouring columns are not neighbours in memory, and
    where few blocks would do all the work.
    """

    def special(stage: Compute) -> bool:
        tiled = bool(stage.reduce_axes) and needs_tiling(facts, stage)
        return tiled or has_limits(stage) or by_constants(stage)

    def joins(producer: Compute, stages: frozenset[Compute]) -> bool:
        alone = stages.issuperset(facts.readers[producer]) and not facts.is_output(producer)
        return alone and not special(producer) and not state.decided(producer)

    if special(op) or state.finishes(op):
        return []
    before = [c for c in reversed(facts.dag.compute_ops) if c is not op]
    chain = find(op, before, lambda c: c.body, joins)
    if chain is None or not _fits(chain):
        return []
    *others, anchor = chain.stages
    plans = {c: StagePlan(At(anchor, 1)) for c in reversed(others)}
    text = f"rows of {', '.join(c.name for c in chain.stages)}"
    states = [state.step(text, {**plans, anchor: StagePlan(Root(), ROWS)})]
    return states if _last(chain) and _spread(chain) else Branch(states)


def _fits(chain: RowChain) -> bool:
    """Whether the threads of a block hold a row."""
    return -(-chain.terms // ROW_LANES) * max(chain.live, 1) <= MOST_HELD


def _last(chain: RowChain) -> bool:
    """Whether neighbouring columns are neighbours in memory."""
    if not chain.wide(chain.anchor):
        return contiguous_axis(chain.reductions[0]) is not None
    wide = [a for a in chain.anchor.axes if a.typical > 1]
    return wide[-len(chain.columns) :] == list(chain.columns)


def _spread(chain: RowChain) -> bool:
    """Whether rows are many enough, or short enough, for a block to do one alone."""
    return chain.terms <= _LONG_ROW or chain.count >= _MANY_ROWS


def inline_or_stage(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Elementwise stages: computed while a tile of them is staged, or inlined.

    What a tiled reduction reads once is computed once for each staged element, padding above all.
    A stage that finishes a reduction stays with it; an expensive one that many elements are
    computed from has a nest of its own, and so has one that is read in very many places, which
    would double the text of its readers from stage to stage.
    """
    if facts.is_output(op) or op.reduce_axes or state.finishes(op):
        return []
    readers = consumers(facts, state, op)
    consumer = elementwise_consumer(facts, state, op)
    if consumer is None and finished_reduction(facts, op) is not None:
        return []
    if sum(len(accesses(state, op, r)) for r in readers) > _MOST_READS:
        return []
    new = inline_or_attach(state, op, readers)
    again = facts.is_expensive(op) and consumer is None and _used_again(state, op, readers)
    return [] if again and op not in new.attached else [new]


def inline_or_attach(state: State, op: Compute, readers: list[Compute]) -> State:
    """The state in which a stage is computed while its tiled reader stages it, or is inlined."""
    reader = readers[0] if len(readers) == 1 else None
    if reader is not None and state.levels(reader) == TILED and not _plain_copy(op):
        own = accesses(state, op, reader)
        if len(own) == 1 and increasing(own) and in_range(own[0]):
            return state.attach(op, reader, STAGED_DEPTH)
    return state.inline(op)


def _plain_copy(op: Compute) -> bool:
    """Whether the stage moves elements to linear positions and does nothing else."""
    return isinstance(op.body, Read) and all(linear(i) is not None for i in op.body.indices)


def _used_again(state: State, op: Compute, readers: list[Compute]) -> bool:
    """Whether elements of a stage are read more than once."""
    if len(readers) > 1 or len(accesses(state, op, readers[0])) > 1:
        return True
    reader = readers[0]
    points = math.prod(a.typical for a in (*reader.axes, *reader.reduce_axes))
    return points > math.prod(op.shape)


def split_reduction_branch(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: partial sums of parts of a long reduction, then their sum in a second kernel."""
    if not op.reduce_axes or op in state.prepared or has_limits(op) or by_constants(op):
        return []
    if needs_tiling(facts, op):
        return Branch(split_k(state, op))
    return Branch(split_sum(state, op))


def across_threads(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Neighbouring threads share the terms of a point; also, where a tile would be small.

    Alone where threads for the points would be few, or would read far apart.
    """
    if not op.reduce_axes or has_limits(op) or by_constants(op):
        return []
    points = math.prod(a.typical for a in op.axes)
    terms = math.prod(a.typical for a in op.reduce_axes)
    if terms < _WARP or (op in state.prepared and points > _WARP):
        return []
    if needs_tiling(facts, op):
        few = points <= min(_ACROSS_POINTS, _ACROSS_SHARE * terms)
        return Branch([_nest(facts, state, op, ACROSS)]) if few else []
    states = [_nest(facts, state, op, ACROSS)]
    beside = points >= _OCCUPIED and contiguous_axis(op) is None
    return Branch(states) if beside else states


def window(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: a window of few terms, such as a depthwise convolution's, straight from memory.

    Only one of its operands, the weights, is the same for many points.
    """
    terms = math.prod(a.typical for a in op.reduce_axes)
    wide = [a for a in op.axes if a.typical > 1]
    few = bool(op.reduce_axes) and terms <= _WINDOW and len(wide) > 1
    if not few or not needs_tiling(facts, op):
        return []
    shared = 0
    for read in dict.fromkeys(reads(op.body)):
        used = {n for i in read.indices for n in walk(i)}
        shared += any(a not in used for a in wide)
    return Branch([_nest(facts, state, op, DIRECT)]) if shared == 1 else []


def tile(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A reduction that reads its operands several times: tiles staged in shared memory."""
    if not op.reduce_axes or not needs_tiling(facts, op):
        return []
    return [_nest(facts, state, op, TILED)]


def direct(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Any other reduction: threads compute small tiles of points straight from memory."""
    return [_nest(facts, state, op, DIRECT)] if op.reduce_axes else []


def points(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """What reduces nothing: a kernel of its own."""
    return [state.tile(op, POINTS, f"points of {op.name}")]


def _nest(facts: AccessAnalysis, state: State, op: Compute, levels: Levels) -> State:
    consumer = elementwise_consumer(facts, state, op)
    text = f"{_WORDS[levels]} {op.name}" + (f" with {consumer.name}" if consumer else "")
    return state.tile(op, levels, text, consumer=consumer, sums="tile")


_WORDS = {ACROSS: "share terms of", TILED: "tile", DIRECT: "compute directly"}

CUDA_RULES: Rules = (
    winograd,
    row_chain,
    inline_or_stage,
    simplify_const_tensor,
    ragged_reduction,
    split_reduction_branch,
    across_threads,
    window,
    tensor_cores,
    tile,
    direct,
    points,
)
"""The space that is searched on GPUs."""

CAPABILITIES: tuple[Capability, ...] = (ragged_block, constant_transform)
"""What is found about each block of a sketch, in order."""
