"""What a sketch is made of: root loop nests (blocks) with open tile sizes.

A block computes one *anchor* op, tiled by a structure string such as ``SSRSRS`` (``S``: one loop
per spatial axis, ``R``: one loop per reduce axis, outermost level first). The innermost spatial
level is the register tile. An elementwise *epilogue* may be computed on the finished register
tile, and *attached* producers (padding, or another reduction with its epilogue) may be computed
inside the nest into a tile-sized buffer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from tilework.te.expr import Axis, Expr, Read, Reduce, replace_axes, substitute
from tilework.te.tensor import Compute, Operation

MULTI_LEVEL = "SSRSRS"
REDUCTION = "SRS"
ELEMENTWISE = "SS"


@dataclass(frozen=True, eq=False)
class Attached:
    """A producer computed inside its consumer's nest, after the outermost ``level`` S levels.

    Attributes:
        op: the op whose tensor is read.
        body: what it computes, after inlining.
        block: the reduction behind it, with ``op`` as its epilogue unless it is the reduction
            itself; None for an elementwise producer.
        reader: the attached producer that reads it; None if the nest's anchor does.
    """

    op: Compute
    body: Expr
    level: int
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


@dataclass(frozen=True, eq=False)
class Block:
    """One root loop nest.

    Attributes:
        op: the anchor op, whose axes are tiled.
        body: its body after inlining.
        structure: tile levels, outermost first.
        epilogue: elementwise consumer computed on the register tile, with ``epilogue_body`` in
            terms of its own axes; None if the anchor's own result is stored.
        accumulate: where partial sums wait between two visits when the outer reduce level has
            more than one iteration: ``"output"`` or ``"tile"`` (a thread-local buffer).
        attached: producers computed inside this nest, each after those that it reads.
        write_level: 0 writes a register tile as soon as it is finished; 1 or 2 keeps finished
            ones in a thread-local buffer and writes the whole tile after the loops that lie
            inside so many spatial levels.
    """

    op: Compute
    body: Expr
    structure: str
    epilogue: Compute | None = None
    epilogue_body: Expr | None = None
    accumulate: str = "output"
    attached: tuple[Attached, ...] = ()
    write_level: int = 0

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
    def const_axes(self) -> frozenset[Axis]:
        """Axes whose loops are always expanded, because they index constant matrices."""
        names = self.op.attrs.get("const_axes", ())
        return frozenset(a for a in (*self.spatial, *self.reduce) if a.name in names)

    @cached_property
    def ordered(self) -> tuple[Axis, ...]:
        """Spatial axes in loop order: those of constant matrices innermost."""
        const = self.const_axes
        return (
            *(a for a in self.spatial if a not in const),
            *(a for a in self.spatial if a in const),
        )

    @cached_property
    def parallel_axes(self) -> tuple[Axis, ...]:
        """Spatial axes whose outermost loops may be fused and run in parallel, in order."""
        return tuple(a for a in self.ordered if a not in self.const_axes)

    @cached_property
    def spatial_levels(self) -> int:
        """Number of spatial tile levels."""
        return self.structure.count("S")

    @cached_property
    def reduce_levels(self) -> int:
        """Number of reduce tile levels."""
        return self.structure.count("R")

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
        out: list[tuple[Axis, int]] = []
        level = {"S": 0, "R": 0}
        for letter in self.structure:
            axes = self.ordered if letter == "S" else self.reduce
            out += [(a, level[letter]) for a in axes]
            level[letter] += 1
        return tuple(out)


def inline_body(op: Compute, inlined: Collection[Operation]) -> Expr:
    """The op's body with reads of ``inlined`` producers replaced by what they compute."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Read) and isinstance(node.tensor.op, Compute):
            producer = node.tensor.op
            if producer in inlined:
                indices = [substitute(i, visit) for i in node.indices]
                mapping = dict(zip(producer.axes, indices, strict=True))
                return replace_axes(inline_body(producer, inlined), mapping)
        return None

    return substitute(op.body, visit)
