"""Rules of sketch derivation that any kind of machine may use.

A rule is a plain function ``rule(facts, state, stage)``; `tilework.space.state` says what it may
return. The rules here know nothing of a particular target.
"""

from __future__ import annotations

from tilework.index.bounds import Range
from tilework.index.extents import Extent
from tilework.index.symbols import certain, is_static
from tilework.space.blocks import inline_body
from tilework.space.bounds import clipped_at_borders
from tilework.space.plan import Root, StagePlan
from tilework.space.state import Branch, Later, State, Variants
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis, is_elementwise_read
from tilework.te.expr import Axis, IfThenElse, Read, Reduce, Select, reads, walk
from tilework.te.ranges import linear_range
from tilework.te.tensor import Compute, Operation


def consumers(facts: AccessAnalysis, state: State, op: Operation) -> list[Compute]:
    """Readers of ``op``, looking through inlined stages."""
    out: dict[Compute, None] = {}
    for reader in facts.readers[op]:
        if reader in state.inlined:
            out.update(dict.fromkeys(consumers(facts, state, reader)))
        else:
            out[reader] = None
    return list(out)


def needs_tiling(facts: AccessAnalysis, op: Compute) -> bool:
    """Whether to tile at several levels; transforms by constant matrices are expanded instead.

    Neither are reductions whose number of terms is data: see `ragged_reduction`.
    """
    special = by_constants(op) or has_limits(op)
    return not special and facts.needs_multi_level_tiling(op)


def by_constants(op: Compute) -> bool:
    """Whether the op multiplies constant matrices into its data, whose loops are expanded."""
    return "const_axes" in op.attrs


def has_limits(op: Compute) -> bool:
    """Whether data decide how many terms the op's reduction has."""
    return isinstance(op.body, Reduce) and bool(op.body.limits)


def elementwise_consumer(facts: AccessAnalysis, state: State, op: Compute) -> Compute | None:
    """The only consumer of ``op``, if it is free and reads ``op`` element by element."""
    if facts.is_output(op):
        return None
    readers = consumers(facts, state, op)
    if len(readers) != 1:
        return None
    consumer = readers[0]
    if consumer.reduce_axes or consumer.shape != op.shape:
        return None
    if state.finishes(consumer) or state.hosts(consumer):
        return None
    accesses = [r for r in reads(inline_body(consumer, state.inlined)) if r.tensor.op is op]
    if all(is_elementwise_read(r, consumer) for r in accesses):
        return consumer
    return None


def finished_reduction(facts: AccessAnalysis, op: Compute) -> Compute | None:
    """The reduction that an elementwise stage finishes (bias, activation), if it does."""
    last = None
    for read in reads(op.body):
        producer = read.tensor.op
        if not isinstance(producer, Compute) or producer.shape != op.shape:
            continue
        alone = len(facts.readers[producer]) == 1 and not facts.is_output(producer)
        if not alone or not is_elementwise_read(read, op):
            continue
        last = producer if producer.reduce_axes else finished_reduction(facts, producer) or last
    return last


def place_reduction(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A reduction (or the stage that finishes one) before another: its own nest, or per tile.

    A stage that finishes a reduction stays with it, instead of being evaluated again for each use.
    """
    reader = _reader_of_reduction(facts, state, op)
    if reader is None:
        return []
    levels = state.levels(reader)
    places: list[State] = []
    if levels is None or not levels.reuse:
        own = accesses(state, op, reader)
        if len(own) == 1 and increasing(own):
            places = [state.attach(op, reader, state.attached[reader].depth)]
    elif _by_tile(state, op, reader):
        places = [state.attach(op, reader, depth) for depth in levels.places]
    if op.reduce_axes:
        return Later(places)  # the rules of tiling say how it is computed at root
    return [state.root(op), *places]


def place_reduction_inside(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: such a reduction per tile inside the outer reduce loops of its reader."""
    reader = _reader_of_reduction(facts, state, op)
    return [] if reader is None else _inside(state, op, reader)


def _reader_of_reduction(facts: AccessAnalysis, state: State, op: Compute) -> Compute | None:
    """The reduction in whose nest another one (or the stage that finishes it) may be computed."""
    if facts.is_output(op) or state.finishes(op) or by_constants(op):
        return None
    reduction = op if op.reduce_axes else finished_reduction(facts, op)
    if reduction is not None and not _known(reduction):
        return None  # its register tiles would meet ends that a run decides
    readers = consumers(facts, state, op)
    if reduction is None or by_constants(reduction) or len(readers) != 1:
        return None
    if has_limits(reduction) or any(has_limits(r) for r in readers):
        return None
    reader = readers[0]
    if elementwise_consumer(facts, state, op) in state.attached:
        return None  # its reader will be its epilogue
    levels = state.levels(reader)
    tiled = bool(reader.reduce_axes) and levels is not None and levels.reuse
    if not tiled and not (reader in state.attached and op.reduce_axes):
        return None
    return reader


def _inside(state: State, op: Compute, reader: Compute) -> list[State]:
    levels = state.levels(reader)
    if levels is None or not levels.inner_places or not _by_tile(state, op, reader):
        return []
    return Variants([state.attach(op, reader, depth) for depth in levels.inner_places])


def _by_tile(state: State, op: Compute, reader: Compute) -> bool:
    """Whether a tile of the reader reads a region of a stage that can be computed ahead of it."""
    own = accesses(state, op, reader)
    return len(own) == 1 and increasing(own) and in_range(own[0])


def accesses(state: State, op: Compute, reader: Compute) -> list[Read]:
    """The reads of a stage in what computes its reader."""
    return [r for r in reads(inline_body(reader, state.inlined)) if r.tensor.op is op]


def always_inline(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Inline cheap elementwise stages; others only where each element is used once.

    The others are expensive, or choose between values that they compute.
    """
    if facts.is_output(op) or op.reduce_axes or state.finishes(op):
        return []
    if not facts.is_strictly_inlineable(op):
        costly = facts.is_expensive(op) or facts.has_branch(op)
        once = costly and not facts.branches_on_position(op)
        if not once or elementwise_consumer(facts, state, op) is None:
            return []
    return [state.inline(op)]


def simplify_const_tensor(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Transforms by constant matrices (Winograd): loops over the matrices are always expanded."""
    if not by_constants(op) or not op.reduce_axes:
        return []
    consumer = elementwise_consumer(facts, state, op)
    text = f"expand {op.name} over constant matrices"
    text = text if consumer is None else f"{text} with {consumer.name}"
    return [state.tile(op, state.tiling.reduction, text, consumer=consumer)]


def ragged_reduction(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A reduction whose number of terms is data: tiled around one loop over all of them.

    Its consumer, if it has an elementwise one, is computed on the finished register tile.
    """
    if not has_limits(op):
        return []
    consumer = elementwise_consumer(facts, state, op)
    levels = state.tiling.ragged
    text = f"tile {op.name} {levels}" + (f" with {consumer.name}" if consumer else "")
    return [state.tile(op, levels, text, consumer=consumer)]


def tile_with_fusion(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a reduction and compute its elementwise consumer on the finished register tile."""
    consumer = elementwise_consumer(facts, state, op)
    if not op.reduce_axes or consumer is None:
        return []
    if consumer in state.attached:
        return [state.finish(op, consumer)]
    levels = state.tiling.reuse if needs_tiling(facts, op) else state.tiling.reduction
    text = f"tile {op.name} {levels} with {consumer.name}"
    return [state.tile(op, levels, text, consumer=consumer, sums="tile")]


def add_cache_write(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile and keep partial sums in a tile-sized buffer (branches with `multi_level_tiling`)."""
    if not (op.reduce_axes and needs_tiling(facts, op)) or not facts.is_output(op):
        return []  # the result of an inner stage is a temporary already
    levels = state.tiling.reuse
    return Branch([state.tile(op, levels, f"tile {op.name} {levels} cache write", sums="tile")])


def multi_level_tiling(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a stage that reuses its inputs; partial sums wait in the output."""
    if not needs_tiling(facts, op):
        return []
    levels = state.tiling.reuse if op.reduce_axes else state.tiling.elementwise
    return [state.tile(op, levels, f"tile {op.name} {levels}")]


def place_producer(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Padding of a tiled consumer: its own nest, inlined, or per tile inside the consumer.

    Borders at positions that a run decides are inlined where clipped loops leave out what lies
    beyond them: else every load would ask. Where sums over constant matrices are expanded, one
    question is for all loads of a tile.
    """
    consumer = _reader_of_producer(facts, state, op)
    if consumer is None:
        return []
    alone = _by_tile(state, op, consumer)
    levels = state.levels(consumer)
    known = not facts.branches_on_position(op) or _borders_known(op)
    known = known or "const_axes" in consumer.attrs or _clipped(state, op, consumer)
    inline = [state.inline(op)] if known else []
    if levels is None:  # computed per tile of another nest itself
        depth = state.attached[state.epilogues.get(consumer, consumer)].depth
        return [*([state.attach(op, consumer, depth)] if alone else []), *inline]
    own = StagePlan(Root(), state.tiling.elementwise)
    return [
        state.step(f"compute {op.name} at root", {op: own}),
        *[state.attach(op, consumer, depth) for depth in (levels.places if alone else ())],
        *inline,
    ]


def _known(op: Compute) -> bool:
    """Whether the extents of a stage are known before a run."""
    return is_static(a.extent for a in (*op.axes, *op.reduce_axes))


def _borders_known(op: Compute) -> bool:
    """Whether the extents of the axes by which a stage chooses are known before a run."""
    conds = [e.cond for e in walk(op.body) if isinstance(e, IfThenElse | Select)]
    asked = {a for cond in conds for a in walk(cond) if isinstance(a, Axis)}
    return is_static(a.extent for a in asked)


def _clipped(state: State, op: Compute, consumer: Compute) -> bool:
    """Whether no load of a consumer asks for borders that a run decides, if a stage is inlined."""
    body = inline_body(consumer, state.inlined | {op})
    return isinstance(body, Reduce) and clipped_at_borders(consumer, body.source)


def place_producer_inside(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: such padding per tile inside the outer reduce loops of its consumer."""
    consumer = _reader_of_producer(facts, state, op)
    return [] if consumer is None else _inside(state, op, consumer)


def _reader_of_producer(facts: AccessAnalysis, state: State, op: Compute) -> Compute | None:
    """The reduction that reads a stage at increasing positions, and nothing else does."""
    readers = consumers(facts, state, op)
    if facts.is_output(op) or op.reduce_axes or state.finishes(op) or len(readers) != 1:
        return None
    consumer = readers[0]
    if not consumer.reduce_axes or has_limits(consumer):
        return None
    return consumer if increasing(accesses(state, op, consumer)) else None


def increasing(accesses: list[Read]) -> bool:
    """Whether every index of every access is linear with known, positive coefficients."""
    forms = [linear(i) for r in accesses for i in r.indices]
    return all(
        f is not None and all(isinstance(c, int) and c > 0 for c in f.coefficients.values())
        for f in forms
    )


def in_range(read: Read) -> bool:
    """Whether a read at increasing linear indices stays within its tensor at every point.

    A guarded read may not, and then there is no region of the producer to compute ahead of it.
    """
    for index, size in zip(read.indices, read.tensor.shape, strict=True):
        bounds = linear_range(index)
        if bounds is None or not _lies_in(bounds, size):
            return False
    return True


def _lies_in(bounds: Range, size: Extent) -> bool:
    return certain(lambda: bounds[0] >= 0 and bounds[1] < size)


def skip(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Leave the stage as its own simple nest."""
    return [state.root(op)]
