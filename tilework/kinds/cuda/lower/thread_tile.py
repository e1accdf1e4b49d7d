"""Where the points of a thread lie in the tile of its block.

Along an axis, with virtual, thread and register extents V, T and R::

    point = block * V*T*R + virtual * T*R + thread * R + register
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.frozen import frozen
from tilework.lower.common import LoopSpec, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Stmt
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr

VECTORS = (4, 2)


@frozen(eq=False)
class Held:
    """Loops over points of a thread.

    Attributes:
        loops: outermost first; the last one is a vector loop where one was asked for.
        virtual, register: index of each axis in its virtual and its register level.
    """

    loops: tuple[LoopSpec, ...]
    virtual: dict[Axis, Expr]
    register: dict[Axis, Expr]

    def each(self, body: Stmt) -> Stmt:
        """``body`` for all of them."""
        return nest(self.loops, body)

    def where(self, axes: Sequence[Axis]) -> tuple[Expr, ...]:
        """Position in a buffer that has two dimensions for each of some axes."""
        return tuple(x for a in axes for x in (self.virtual[a], self.register[a]))


class ThreadTile:
    """The spatial loops of a tiled block, for one row.

    Attributes:
        axes: the spatial axes.
        grid, threads: loop variables by axis.
        size: extents by axis: (grid, virtual, thread, register).
    """

    def __init__(self, block_nest: BlockNest) -> None:
        self.axes = block_nest.block.spatial
        self.size = {a: tuple(int(n[0]) for n in block_nest.tiles[a]) for a in self.axes}
        self.grid = {a: loop_var(f"{a.name}.b", self.size[a][0]) for a in self.axes}
        self.threads = {a: loop_var(f"{a.name}.t", self.size[a][2]) for a in self.axes}

    def span(self, axis: Axis) -> int:
        """Points of an axis that the block covers."""
        _, virtual, threads, register = self.size[axis]
        return virtual * threads * register

    def covered(self) -> dict[Axis, int]:
        """Points of each axis that all blocks cover, those outside of it included."""
        return {a: self.size[a][0] * self.span(a) for a in self.axes}

    def first(self, axis: Axis) -> Expr:
        """The block's first point."""
        return weighted_sum([(var_or_zero(self.grid[axis]), self.span(axis))])

    def local(self, axis: Axis, held: Held) -> Expr:
        """The place of a thread's point in the block's tile."""
        _, _, threads, register = self.size[axis]
        return weighted_sum([
            (held.virtual[axis], threads * register),
            (var_or_zero(self.threads[axis]), register),
            (held.register[axis], 1),
        ])  # fmt: skip

    def held(self, axes: Sequence[Axis], vector: Axis | None = None) -> Held:
        """Loops over a thread's points along some axes, those of register levels inside.

        Args:
            axes: all others stay at their first point, index 0.
            vector: whose register level is taken in vectors, if it divides into any.
        """
        outer: list[LoopSpec] = []
        inner: list[LoopSpec] = []
        lanes: list[LoopSpec] = []
        virtual: dict[Axis, Expr] = {}
        register: dict[Axis, Expr] = {}
        for axis in axes:
            _, count, _, size = self.size[axis]
            v = loop_var(f"{axis.name}.v", count)
            outer.append((v, count, "unroll"))
            virtual[axis] = var_or_zero(v)
            width = next((w for w in VECTORS if size % w == 0), 1) if axis is vector else 1
            r, lane = loop_var(f"{axis.name}.r", size // width), loop_var("lane", width)
            inner.append((r, r.points, "unroll"))
            lanes.append((lane, width, "vector"))
            register[axis] = weighted_sum([(var_or_zero(r), width), (var_or_zero(lane), 1)])
        loops = (*outer, *inner, *(s for s in lanes if s[1] != 1))
        return Held(loops, virtual, register)
