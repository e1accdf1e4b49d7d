"""What a block's computation allows: found once, when its sketch is made.

Each is a value that a function of the kind's tuple (`tilework.space.protocol.Space.capabilities`)
sets on a block; lowering, decisions, limits and features read it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.space.instructions import Instruction
from tilework.space.straightline import Matrix, straight_line
from tilework.te.expr import Axis, Compare, Expr


@frozen(eq=False)
class Dots:
    """Neighbouring points of a reduce axis that one instruction multiplies and sums.

    The innermost tile of ``axis`` is a multiple of ``count`` in every row.
    """

    axis: Axis
    instruction: Instruction

    @property
    def count(self) -> int:
        """Points that are taken together."""
        return self.instruction.terms


@frozen(eq=False)
class MatrixUnit:
    """What computes the register tiles that are large for vector registers.

    Attributes:
        instruction: takes several groups of `Dots` at a time.
        rows: spatial axes along which rows of a tile may lie; those of a block lie along the
            last one that has several points in a tile.
        vectors: registers that smaller tiles take, of sums and of a row of weights.
    """

    instruction: Instruction
    rows: frozenset[Axis]
    vectors: int


@frozen(eq=False)
class Apart:
    """``sum of terms - less * sum of data``: a sum of ``data * (w - less)`` in two.

    The data are equal along the vectorised axis, so that a row of a register tile has one sum.
    """

    terms: Expr
    data: Expr
    less: Expr


@frozen(eq=False)
class Whole:
    """``float32(sum of terms) * scale + more``: a sum of whole numbers, and what it stands for.

    Attributes:
        scale, more: the same for all terms of a sum.
        few: the sum in another form, of fewer operations where a tile has few rows: `Few`.
    """

    scale: Expr
    more: Expr
    few: Few | None = None


@frozen(eq=False)
class Few:
    """Terms whose weights are not moved to another zero point, and `Whole.more` that fits them."""

    terms: Expr
    more: Expr


@frozen(eq=False)
class Scaled:
    """``sum of factor * (sum over axes of terms)``.

    The innermost tile of each of ``axes`` is the whole axis in every row.

    Attributes:
        axes: reduce axes of the inner sums.
        terms: what is summed inside.
        factor: what a finished inner sum is multiplied by.
        apart: the inner sum in two, where its terms are differences; else None.
        whole: what an inner sum of integers stands for; None of floats.
    """

    axes: tuple[Axis, ...]
    terms: Expr
    factor: Expr
    apart: Apart | None = None
    whole: Whole | None = None


@frozen(eq=False)
class Product:
    """A constant matrix times the data along one axis: ``reduce`` runs over columns.

    ``spatial`` is an axis of the matrix's rows, or one that is cut into tiles of so many rows.
    """

    reduce: Axis
    spatial: Axis
    matrix: Matrix


@frozen(eq=False)
class Transform:
    """Constant matrices times data: the products in the order in which they are done."""

    data: Expr
    stages: tuple[Product, ...]

    def operations(self) -> int:
        """Vector operations of one tile (all rows of all matrices)."""
        total = 0
        for k, stage in enumerate(self.stages):
            others = 1
            for j, s in enumerate(self.stages):
                others *= 1 if j == k else len(s.matrix if j < k else s.matrix[0])
            total += others * straight_line(stage.matrix).operations
        return total

    def points(self) -> tuple[int, int]:
        """Elements that a tile reads, and that it computes."""
        reads = writes = 1
        for s in self.stages:
            reads *= len(s.matrix[0])
            writes *= len(s.matrix)
        return reads, writes


@frozen(eq=False)
class Ragged:
    """A reduction whose number of terms is data (`tilework.space.ragged`).

    Attributes:
        ends: per ragged reduce axis, the number of its terms.
        steps: per spatial axis that ends, or positions found in data, depend on: what tiles
            divide.
    """

    ends: Mapping[Axis, Expr] = field(default_factory=dict)
    steps: Mapping[Axis, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ends)


NOT_RAGGED = Ragged()


@frozen(eq=False)
class Scatter:
    """A reduction whose terms mean one point of an axis each (`tilework.space.scattering`).

    Attributes:
        axis: the spatial axis.
        place: the point of it that a term means; a term that means none lies outside.
        value: the term.
        single: spatial axes that tiles have one point of: those that decide the place, and
            ``axis``.
    """

    axis: Axis
    place: Expr
    value: Expr
    single: frozenset[Axis]


@frozen(eq=False)
class Bound:
    """One comparison that guards a load, as ``slope * axis + step * tap + const >= 0``.

    Attributes:
        node: the comparison, as it stands in the block's body.
        axis: the spatial axis, never the vectorised one.
        slope: its coefficient, not 0.
        tap: the reduce axis, or None.
        step: its coefficient (0 without one).
        const: the constant; of an open axis it may be what a run decides.
        skips: whether the reduction needs no term where the bound does not hold: it adds 0 to a
            sum, or cannot win a maximum or minimum of finite numbers.
    """

    node: Compare
    axis: Axis
    slope: int
    tap: Axis | None
    step: int
    const: Extent
    skips: bool
