"""The innermost reduce level of a register tile: loops partly expanded and cut at borders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilework.lower.common import Point, const, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.expansion import expansion_of_one, tile_vectors
from tilework.lower.ir import For, Stmt, seq
from tilework.lower.register_tiles.borders import Span, checked, clippable, fewer, tile_spans
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.tile_version import Version
from tilework.te.expr import Axis


def spans_of(loops: Loops) -> dict[Axis, list[Span]]:
    """Spans of the register tile on every spatial axis."""
    block = loops.block
    tile = {a: loops.tile[a][-1] for a in block.spatial}
    full = {a: min(tile[a], a.extent) for a in block.spatial}
    found = block.bounds
    if not found:
        return {a: tile_spans(a.extent, tile[a]) for a in block.spatial}
    factors = _factors(loops, full, 1.0, frozenset(), frozenset())
    out: dict[Axis, list[Span]] = {}
    for axis in block.spatial:
        own = [b for b in found if b.axis is axis]
        taps = {b.tap for b in own}
        clip = "no"
        if tile[axis] == 1 and clippable(own):
            clip = "border" if any(factors[t] > 1 for t in taps if t is not None) else "all"
        out[axis] = tile_spans(axis.extent, tile[axis], own, clip)
        cut = any(len(loops.tile[t]) > 1 and loops.tile[t][0] > 1 for t in taps if t is not None)
        if cut and not any(s.kind == "clip" for s in out[axis]):
            # the taps of one visit are not known where code is generated
            out[axis] = checked(out[axis], axis.extent, tile[axis])
    vectors = vectors_of(loops, full) if loops.serial_taps else 0
    return fewer(out, tile, found, vectors)


def reduce_steps(version: Version, make: Callable[[Point, Point], Stmt]) -> Stmt:
    """Loops of the innermost reduce level around what ``make`` returns.

    Args:
        version: the tile.
        make: the updates of all points, given each reduce axis's index at the innermost level and
            the tap that stands for it in bounds: a literal where all taps of a loop use the same
            points. An axis that is taken in groups is indexed by group.
    """
    loops = version.loops
    block = loops.block
    level = block.reduce_levels - 1
    clips, cut = version.clips(), version.segments()
    sizes = {a: s.size for a, s in version.spans.items()}
    factors = _factors(loops, sizes, version.room(), frozenset(cut), frozenset(clips))
    inner = {a: loop_var(f"{loops.vars[a, level].name}.u", factors[a]) for a in block.reduce}
    expanded = [(inner[a], inner[a].extent, "unroll") for a in block.reduce]

    def build(rest: Sequence[Axis], index: Point, taps: Point) -> Stmt:
        if not rest:
            return nest(expanded, make(index, taps))
        axis, after = rest[0], rest[1:]
        extent = loops.steps(axis)
        outer = loop_var(loops.vars[axis, level].name, extent // factors[axis])
        if axis in clips:
            start, stop = clips[axis]
            at = var_or_zero(outer)
            body = build(after, {**index, axis: at}, {**taps, axis: at})
            return For(outer, stop, "serial", body, start)
        if axis in cut and factors[axis] < extent:
            parts = []
            for first, end in cut[axis]:
                at = outer if end - first > 1 else const(first)
                body = build(after, {**index, axis: at}, {**taps, axis: const(first)})
                parts.append(body if at is not outer else For(outer, end, "serial", body, first))
            return seq(*parts)
        at = weighted_sum([(var_or_zero(outer), factors[axis]), (var_or_zero(inner[axis]), 1)])
        body = build(after, {**index, axis: at}, {**taps, axis: at})
        return nest([(outer, outer.extent, "serial")], body)

    return build(block.reduce, {}, {})


def _factors(
    loops: Loops,
    sizes: dict[Axis, int],
    share: float,
    whole: Collection[Axis],
    clipped: Collection[Axis],
) -> dict[Axis, int]:
    """How far each innermost reduce loop is expanded within the row's unroll limit.

    All serial parts go outside all expanded parts: the expanded body is one basic block.

    Args:
        loops: the nest.
        sizes: the register tile.
        share: the part of the row's limit that this version may use.
        whole: axes that are expanded wholly or not at all.
        clipped: axes whose loops have ends that are computed; they are not expanded.
    """
    block = loops.block
    most = int(share * int(loops.nest.unroll[0]))
    return expansion_of_one(
        {a: loops.steps(a) for a in block.reduce},
        max(most // max(vectors_of(loops, sizes), 1), 1),
        always=block.const_axes,
        whole=whole,
        serial={*clipped, *loops.serial_taps},
    )


def vectors_of(loops: Loops, sizes: dict[Axis, int]) -> int:
    """Vectors of a register tile, of the width that unroll limits are counted in."""
    return int(tile_vectors([sizes[a] for a in loops.block.spatial]))
