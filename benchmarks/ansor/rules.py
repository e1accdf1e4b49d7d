"""Ansor's own CPU rules: the same sketches, in the same order, as the original derives.

`tilework.kinds.cpu.rules.CPU_RULES` searches a leaner space. It merges what these rules keep apart
(a consumer computed after the first or the second spatial level, a cache for every tiled stage)
and adds what they lack (producers placed inside a nest, more ways to cut a long reduction).
"""

from __future__ import annotations

import math

from tilework.space.rfactor import Cut, split_reduction
from tilework.space.rules import by_constants, elementwise_consumer, has_limits, needs_tiling, skip
from tilework.space.state import Branch, Rules, State
from tilework.space.tables import divisors
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute

_SPATIAL_PER_CORE = 16
_LARGEST_FACTOR = 64


def always_inline(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Inline stages that are strictly inlineable."""
    if facts.is_output(op) or op.reduce_axes or not facts.is_strictly_inlineable(op):
        return []
    return [state.inline(op)]


def simplify_const_tensor(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile the free axes of a transform and expand the loops over its constant matrices."""
    if not by_constants(op):
        return []
    levels = state.tiling.plain(reduces=bool(op.reduce_axes))
    return [state.tile(op, levels, f"expand {op.name} over constant matrices")]


def add_rfactor(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Make the outer, or the inner, part of a reduction spatial where spatial points are few."""
    if not op.reduce_axes or op in state.prepared or has_limits(op):
        return []
    spatial = math.prod(a.typical for a in op.axes)
    points = math.prod(a.typical for a in op.reduce_axes)
    cores = state.target.num_cores
    if needs_tiling(facts, op):
        if spatial > points or spatial > _SPATIAL_PER_CORE * cores:
            return []
    elif points <= max(cores, 1):
        return []
    long = [a for a in op.reduce_axes if a.typical > 1]
    outer: Cut = (long[0], min(d for d in divisors(long[0].extent) if d > 1))
    fit = [d for d in divisors(long[-1].extent) if 1 < d <= _LARGEST_FACTOR]
    inner: Cut = (long[-1], max(fit, default=long[-1].extent))
    out = []
    for cut in ((outer, None), (None, inner)):
        cut_state = split_reduction(state, op, *cut)
        final = cut_state.undecided()
        assert final is not None
        out.append(cut_state.root(final))
    return Branch(out)


def add_cache_write(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Give a tiled stage without an elementwise consumer one: the copy from its cache."""
    if not needs_tiling(facts, op) or op in state.prepared or not op.reduce_axes:
        return []
    if elementwise_consumer(facts, state, op) is not None:
        return []
    return Branch([state.step(f"cache write {op.name}", prepared=state.prepared | {op})])


def tile_with_fusion(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a stage, computed at the first or the second tile level of its consumer."""
    consumer = elementwise_consumer(facts, state, op)
    cached = op in state.prepared
    if not needs_tiling(facts, op) or not op.reduce_axes or (consumer is None and not cached):
        return []
    name = f"{op.name}'s copy" if consumer is None else consumer.name
    levels = state.tiling.reuse
    found = [
        state.tile(
            op,
            levels,
            f"tile {op.name} {levels} at {name} level {depth}",
            consumer=consumer,
            sums="tile",
            write_depth=depth,
        )
        for depth in levels.places
    ]
    return found if cached else Branch(found)


def multi_level_tiling(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a stage that reuses its inputs."""
    if not needs_tiling(facts, op):
        return []
    levels = state.tiling.reuse if op.reduce_axes else state.tiling.elementwise
    return [state.tile(op, levels, f"tile {op.name} {levels}")]


ANSOR_RULES: Rules = (
    always_inline,
    simplify_const_tensor,
    add_rfactor,
    add_cache_write,
    tile_with_fusion,
    multi_level_tiling,
    skip,
)
"""The original's rules; ``SearchTask(dag, target, rules=ANSOR_RULES)`` searches their space."""
