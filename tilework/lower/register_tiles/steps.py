"""The innermost reduce level of a register tile: loops partly expanded and cut at borders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilework.index.extents import Extent, ceil_div
from tilework.lower.common import (
    ZERO,
    Index,
    bound,
    const,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.expansion import expansion_of_one, tile_vectors
from tilework.lower.ir import For, Stmt, seq
from tilework.lower.register_tiles.borders import Span, checked, clippable, fewer, tile_spans
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.pieces import Pieces
from tilework.lower.register_tiles.tile_version import Version
from tilework.space.blocks import Block
from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, binary, reads

_LEFT = 12
"""Vector operations, counted as unroll limits are, that a body of an axis's last tile holds at
least if the limit allows: with as many the loop around it costs nothing. There is such a body for
each number of points that may be left, so that more would be most of a kernel's code. Sums over
taps alone have few steps, which are expanded all or none: there twice as many."""
_COLUMNS = 4
"""Steps along rows whose vectors lie across them, at the fewest: so many columns may be loaded at
once. Where extents are known, what is measured says how many there are."""


def spans_of(loops: Loops) -> dict[Axis, list[Span]]:
    """Spans of the register tile on the spatial axes of blocks with bounds."""
    block = loops.block
    tile = {a: loops.points(a) for a in block.spatial}
    full = {a: min(n, a.most) for a, n in tile.items()}
    bounds = block.bounds
    if not bounds:
        return {}
    factors = _factors(loops, full, 1.0, frozenset(), frozenset())
    out: dict[Axis, list[Span]] = {}
    for axis in (a for a in block.spatial if isinstance(a.extent, int)):
        own = [b for b in bounds if b.axis is axis]
        taps = {b.tap for b in own}
        clip = "no"
        if tile[axis] == 1 and clippable(own):
            clip = "border" if any(factors[t] > 1 for t in taps if t is not None) else "all"
        out[axis] = tile_spans(axis.points, tile[axis], own, clip)
        if loops.visits(own) and not any(s.kind == "clip" for s in out[axis]):
            out[axis] = checked(out[axis], axis.points, tile[axis])
    vectors = vectors_of(loops, full) if loops.serial_taps else 0
    return fewer(out, tile, bounds, vectors)


def reduce_steps(
    version: Version,
    make: Callable[[Index, Index], Stmt],
    axes: Sequence[Axis] | None = None,
    around: Index | None = None,
    expanded: bool = True,
    apart: Callable[[Stmt], Stmt] | None = None,
) -> Stmt:
    """Loops of the innermost reduce level around what ``make`` returns.

    Args:
        version: the tile.
        make: the updates of all points, given each reduce axis's index at the innermost level and
            the tap that stands for it in bounds: a literal where all taps of a loop use the same
            points. An axis that is taken in groups is indexed by group.
        axes: the reduce axes that have a loop; all by default.
        around: indices of the others.
        expanded: whether loops are expanded in part.
        apart: what is done around each piece of the steps, if they are to be cut into pieces.
    """
    loops = version.loops
    block = loops.block
    level = block.reduce_levels - 1
    clips, cut = version.clips(), version.segments()
    sizes = {a: loops.points(a) if a.open else s.size for a, s in version.spans.items()}
    share, own = version.room(), {a: s.size for a, s in version.spans.items()}
    short = own != sizes or (version.rare and bool(loops.serial_taps))
    least = 2 * _LEFT if block.bounds and not loops.serial_taps else _LEFT
    enough = None if not short else ceil_div(least, max(vectors_of(loops, own), 1))
    factors = _factors(loops, sizes, share, frozenset(cut), frozenset(clips), enough)
    if not expanded:
        factors = dict.fromkeys(factors, 1)
    inner = {a: loop_var(f"{loops.vars[a, level].name}.u", factors[a]) for a in block.reduce}
    looped = block.reduce if axes is None else tuple(axes)
    fixed = {*clips, *cut, *block.const_axes}
    pieces = None if apart is None else Pieces.of(loops, factors, fixed, apart)

    def all_of(axis: Axis, steps: Expr, some: Callable[[Expr, Expr], Stmt]) -> Stmt:
        if pieces is None or pieces.axis is not axis:
            return some(ZERO, steps)
        return pieces.loop(loops.vars[axis, level], steps, some)

    def build(rest: Sequence[Axis], index: Index, taps: Index, single: Collection[Axis]) -> Stmt:
        if not rest:
            written = [(inner[a], factors[a], "unroll") for a in looped if a not in single]
            return nest(written, make(index, taps))
        axis, after = rest[0], rest[1:]
        extent = loops.steps(axis)
        if not isinstance(extent, int):
            return open_steps(axis, extent, after, index, taps, single)
        outer = loop_var(loops.vars[axis, level].name, extent // factors[axis])
        if axis in clips:
            start, stop = clips[axis]
            at = var_or_zero(outer)
            body = build(after, {**index, axis: at}, {**taps, axis: at}, single)
            return For(outer, stop, "serial", body, start)
        if axis in cut and factors[axis] < extent:
            parts = []
            for first, end in cut[axis]:
                at = outer if end - first > 1 else const(first)
                body = build(after, {**index, axis: at}, {**taps, axis: const(first)}, single)
                parts.append(body if at is not outer else For(outer, end, "serial", body, first))
            return seq(*parts)
        at = weighted_sum([(var_or_zero(outer), factors[axis]), (var_or_zero(inner[axis]), 1)])
        body = build(after, {**index, axis: at}, {**taps, axis: at}, single)
        if outer.extent == 1:
            return body

        def some(first: Expr, stop: Expr) -> Stmt:
            return _bodies(outer, factors[axis], body, first, stop)

        return all_of(axis, const(extent), some)

    def open_steps(
        axis: Axis,
        extent: Extent | Expr,
        after: Sequence[Axis],
        index: Index,
        taps: Index,
        single: Collection[Axis],
    ) -> Stmt:
        """Whole bodies of as many steps as a run says, then the steps that are left."""
        factor, name, most = factors[axis], loops.vars[axis, level].name, loops.tile[axis][-1]

        def every(at: Expr, single: Collection[Axis]) -> Stmt:
            return build(after, {**index, axis: at}, {**taps, axis: at}, single)

        left = loop_var(name if factor == 1 else f"{name}.left", most)
        one = every(left, {*single, axis})
        outer = loop_var(name, most // factor)
        at = weighted_sum([(outer, factor), (inner[axis], 1)])
        body = one if factor == 1 else every(at, single)

        def some(first: Expr, stop: Expr) -> Stmt:
            if factor == 1:
                return _bodies(left, 1, one, first, stop)
            done = binary("*", binary("//", stop, const(factor)), const(factor))
            bodies = _bodies(outer, factor, body, first, stop)
            return seq(bodies, _bodies(left, 1, one, done, stop))

        return all_of(axis, extent if isinstance(extent, Expr) else const(extent), some)

    known = around or {}
    steps = build(looped, known, known, frozenset())
    return steps if apart is None or pieces is not None else apart(steps)


def _bodies(var: Axis, factor: int, body: Stmt, first: Expr, stop: Expr) -> Stmt:
    """A loop over bodies of some steps each, from the first step on, before the last ones."""
    by = const(factor)
    return For(var, bound(binary("//", stop, by)), "serial", body, bound(binary("//", first, by)))


def _across_rows(block: Block) -> bool:
    """Whether vectors lie across the rows of an operand, and steps of the sum along them.

    Weights do not count, whose rows are packed the other way.
    """
    packed = block.op.attrs.get("layout_free", ())
    for read in reads(block.source) if block.spatial else ():
        if read.tensor.op.name in packed:
            continue
        *outer, last = [linear(index) for index in read.indices] or [None]
        along = last is not None and any(last.step(a) == 1 for a in block.reduce)
        if along and any(f is not None and f.step(block.spatial[-1]) for f in outer):
            return True
    return False


def _factors(
    loops: Loops,
    sizes: dict[Axis, int],
    share: float,
    whole: Collection[Axis],
    clipped: Collection[Axis],
    most: int | None = None,
) -> dict[Axis, int]:
    """How far each innermost reduce loop is expanded within the row's unroll limit.

    All serial parts go outside all expanded parts: the expanded body is one basic block.

    Args:
        loops: the nest.
        sizes: the register tile; a last one of as many points as a run says is expanded no
            further than the whole one, for there are many versions of it.
        share: the part of the row's limit that this version may use.
        whole: axes that are expanded wholly or not at all.
        clipped: axes whose loops have ends that are computed; they are not expanded.
        most: copies of the tile that are enough.
    """
    block = loops.block
    room = max(int(share * int(loops.nest.unroll[0])) // max(vectors_of(loops, sizes), 1), 1)
    room = room if most is None else min(room, most)
    if any(a.open for a in block.spatial) and _across_rows(block):
        room = max(room, _COLUMNS)
    return expansion_of_one(
        {a: loops.steps(a) for a in block.reduce},
        room,
        always=block.const_axes,
        whole=whole,
        serial={*clipped, *loops.serial_taps},
    )


def vectors_of(loops: Loops, sizes: dict[Axis, int]) -> int:
    """Vectors of a register tile, of the width that unroll limits are counted in."""
    return int(tile_vectors([sizes[a] for a in loops.block.spatial]))
