"""Ansor's own GPU rules: the same sketches as the original derives, for comparisons.

`tilework.kinds.cuda.rules.CUDA_RULES` searches a wider space: it adds Winograd forms, products in
several parts, windows straight from memory, and rows in registers where the original reduces them
once more for every reader.

The original tiles by ``SSSRRSRS``: blocks, virtual threads, threads, fetches, then ``R S R S``
inside a fetch. The last four only permute code that is expanded anyway; here they are one reduce
level and one spatial level, so that the structure is ``SSSRRS``. Its caches are what `TILED`
stands for: operands in shared memory, sums in registers. A row may also read an operand without
staging it, which the original never does.
"""

from __future__ import annotations

import math

from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.rules import inline_or_attach, row_chain
from tilework.kinds.cuda.tiling import ACROSS, TILED
from tilework.space.rules import (
    by_constants,
    consumers,
    elementwise_consumer,
    finished_reduction,
    has_limits,
    needs_tiling,
    ragged_reduction,
    skip,
)
from tilework.space.state import Branch, Rules, State
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute

from .rules import simplify_const_tensor

_MOST_THREADS = 1024


def always_inline(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Inline every stage that reduces nothing; into what a tiled reader stages, if there is one.

    What finishes a reduction that is not inlined stays with it.
    """
    alone = elementwise_consumer(facts, state, op) is None
    if alone and finished_reduction(facts, op) is not None:
        return []
    if facts.is_output(op) or op.reduce_axes or state.finishes(op):
        return []
    return [inline_or_attach(state, op, consumers(facts, state, op))]


def cross_thread_reduction(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Share the terms of a point among threads where they are more than the points."""
    if not op.reduce_axes or has_limits(op) or by_constants(op):
        return []
    points = math.prod(a.typical for a in op.axes)
    terms = math.prod(a.typical for a in op.reduce_axes)
    if needs_tiling(facts, op):
        if points > _MOST_THREADS or points >= terms:
            return []
    elif terms <= WARP:
        return []
    consumer = elementwise_consumer(facts, state, op)
    text = f"share terms of {op.name}"
    return Branch([state.tile(op, ACROSS, text, consumer=consumer, sums="tile")])


def tile_with_fusion(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a stage that reuses its inputs; its consumer, or a copy, is on its registers."""
    if not needs_tiling(facts, op) or not op.reduce_axes:
        return []
    consumer = elementwise_consumer(facts, state, op)
    name = f"{op.name}'s copy" if consumer is None else consumer.name
    return [state.tile(op, TILED, f"tile {op.name} with {name}", consumer=consumer, sums="tile")]


ANSOR_RULES: Rules = (
    row_chain,
    always_inline,
    simplify_const_tensor,
    ragged_reduction,
    cross_thread_reduction,
    tile_with_fusion,
    skip,
)
"""The original's rules; ``SearchTask(dag, target, rules=ANSOR_RULES)`` searches their space."""
