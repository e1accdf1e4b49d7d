"""What a sketch is made of: root loop nests (blocks) with open tile sizes.

A block computes one *anchor* op, tiled by `Levels`. The innermost spatial level is the register
tile. An elementwise *epilogue* may be computed on the finished register tile, and *attached*
producers (padding, or another reduction with its epilogue) may be computed inside the nest into a
tile-sized buffer.
"""

from __future__ import annotations

from functools import lru_cache

from tilework.frozen import frozen
from tilework.once import cached_property
from tilework.space.capabilities import (
    NOT_RAGGED,
    Bound,
    Dots,
    MatrixUnit,
    Ragged,
    Scaled,
    Scatter,
    Transform,
)
from tilework.space.levels import Levels, Role
from tilework.te.expr import Axis, Expr, Read, Reduce, reads, replace_axes, rewritten
from tilework.te.tensor import Compute, Operation


@frozen(eq=False)
class Attached:
    """A producer computed inside its consumer's nest, inside its ``depth`` outermost levels.

    Attributes:
        op: the op whose tensor is read.
        body: what it computes, after inlining.
        block: the reduction behind it, with ``op`` as its epilogue unless it is the reduction
            itself; None for an elementwise producer.
        reader: the attached producer that reads it; None if the nest's anchor does.
    """

    op: Compute
    body: Expr
    depth: int
    block: Block | None = None
    reader: Attached | None = None

    @property
    def bodies(self) -> tuple[Expr, ...]:
        """What is evaluated, reductions before epilogues."""
        if self.block is None:
            return (self.body,)
        epilogue = self.block.epilogue_body
        return (self.block.body,) if epilogue is None else (self.block.body, epilogue)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Spatial axes that the indices of its reads are written in."""
        return self.op.axes if self.block is None else self.block.spatial

    @property
    def source(self) -> Expr:
        """The expression that reads further producers."""
        return self.body if self.block is None else self.block.source


@frozen(eq=False)
class Block:
    """One root loop nest.

    Attributes:
        op: the anchor op, whose axes are tiled.
        body: its body after inlining.
        levels: tile levels, outermost first.
        epilogue: elementwise consumer computed on the register tile, with ``epilogue_body`` in
            terms of its own axes; None if the anchor's own result is stored.
        sums, write_depth: see `tilework.space.plan.StagePlan`.
        attached: producers computed inside this nest, each after those that it reads.
        const_axes: axes whose loops are always expanded, because they index constant matrices.
        dots: neighbours that one instruction multiplies and sums; None if there are none.
        matrix: the unit that does so for large register tiles; None if there is none.
        scaled: the sum inside the sum; None if there is none (`tilework.space.scaled`).
        transform: what the block is where it multiplies constant matrices into its data.
        ragged: of a reduction whose number of terms is data; false for any other.
        scatter: what each term means, where terms go where they belong; None elsewhere.
        chosen: spatial axes that decide which matrix is read, where data choose it; None where
            they choose none (`tilework.space.chosen`).
        bounds: comparisons that guard loads and that position decides.
    """

    op: Compute
    body: Expr
    levels: Levels
    epilogue: Compute | None = None
    epilogue_body: Expr | None = None
    sums: str = "output"
    attached: tuple[Attached, ...] = ()
    write_depth: int = 0
    const_axes: frozenset[Axis] = frozenset()
    dots: Dots | None = None
    matrix: MatrixUnit | None = None
    scaled: Scaled | None = None
    transform: Transform | None = None
    ragged: Ragged = NOT_RAGGED
    scatter: Scatter | None = None
    chosen: frozenset[Axis] | None = None
    bounds: tuple[Bound, ...] = ()

    @property
    def result(self) -> Compute:
        """The op whose tensor this block stores."""
        return self.epilogue or self.op

    @cached_property
    def spatial(self) -> tuple[Axis, ...]:
        """Spatial axes of the anchor."""
        return self.op.axes

    @cached_property
    def reduce(self) -> tuple[Axis, ...]:
        """Reduce axes of the anchor."""
        return self.op.reduce_axes

    @cached_property
    def ordered(self) -> tuple[Axis, ...]:
        """Spatial axes in loop order: those of constant matrices innermost."""
        const = self.const_axes
        return (
            *(a for a in self.spatial if a not in const),
            *(a for a in self.spatial if a in const),
        )

    @cached_property
    def single(self) -> frozenset[Axis]:
        """Spatial axes that register tiles have one point of: those that decide a place."""
        return (self.chosen or frozenset()) if self.scatter is None else self.scatter.single

    @cached_property
    def parallel_axes(self) -> tuple[Axis, ...]:
        """Spatial axes whose outermost loops may be fused and run in parallel, in order."""
        meant = None if self.scatter is None else self.scatter.axis
        return tuple(a for a in self.ordered if a not in self.const_axes and a is not meant)

    @cached_property
    def parallel_loops(self) -> tuple[tuple[Axis, int], ...]:
        """Spatial loops that may be fused and run in parallel, outermost first, as (axis, level).

        Those of the outermost level, then those of the spatial levels directly inside it, as far
        as nothing is computed or written between two levels.
        """
        between = {a.depth for a in self.attached} | {self.write_depth}
        out = [(a, 0) for a in self.parallel_axes]
        for depth, (level, number) in enumerate(self.levels.numbered[1:], 1):
            if level.kind != "S" or level.role is not Role.serial or depth in between:
                break
            out += [(a, number) for a in self.parallel_axes]
        return tuple(out)

    @cached_property
    def spatial_levels(self) -> int:
        """Number of spatial tile levels."""
        return self.levels.spatial

    @cached_property
    def reduce_levels(self) -> int:
        """Number of reduce tile levels."""
        return self.levels.reduce

    @property
    def source(self) -> Expr:
        """What is reduced, or the elementwise body itself."""
        return self.body.source if isinstance(self.body, Reduce) else self.body

    @cached_property
    def attached_reductions(self) -> tuple[Attached, ...]:
        """Attached producers with register tiles of their own."""
        return tuple(a for a in self.attached if a.block is not None)

    @cached_property
    def loops(self) -> tuple[tuple[Axis, int], ...]:
        """All loops as (axis, level of its kind), outermost first."""
        return tuple((a, n) for level, n in self.levels.numbered for a in self.axes_of(level.kind))

    def axes_of(self, kind: str) -> tuple[Axis, ...]:
        """The axes that have a loop in each level of a kind, in loop order."""
        return self.ordered if kind == "S" else self.reduce

    @cached_property
    def structure(self) -> str:
        """The kinds of the levels, for reading: ``SSRSRS``."""
        return str(self.levels)

    @cached_property
    def write_level(self) -> int:
        """Spatial levels outside what is written late; 0 where tiles are written at once."""
        return self.levels.within(self.write_depth)[0]


@lru_cache(maxsize=4096)
def inline_body(op: Compute, inlined: frozenset[Operation]) -> Expr:
    """The op's body with reads of ``inlined`` producers replaced by what they compute.

    Kept, for rules ask for it again and again, and sketches and targets have it in common.
    """
    if not any(read.tensor.op in inlined for read in reads(op.body)):
        return op.body

    def computed(node: Expr, kids: tuple[Expr, ...]) -> Expr | None:
        if isinstance(node, Read) and isinstance(node.tensor.op, Compute):
            producer = node.tensor.op
            if producer in inlined:
                mapping = dict(zip(producer.axes, kids, strict=True))
                return replace_axes(inline_body(producer, inlined), mapping)
        return None

    return rewritten(op.body, computed)
