"""Expression nodes beside arithmetic, and the tensors that they read.

Tensors, the operations that define them, and reads of their elements refer to each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilework.dtypes import integer_range, is_float
from tilework.frozen import frozen
from tilework.index.extents import Extent, Typical, known, most, typical
from tilework.index.symbols import Symbolic
from tilework.once import cached_property
from tilework.te.arithmetic import Expr, ExprLike, wrap

REDUCTIONS = ("sum", "prod", "max", "min")


@frozen(eq=False)
class Axis(Expr):
    """An iteration axis ``0 <= name < extent``; ``kind`` is ``"spatial"`` or ``"reduce"``."""

    name: str
    extent: Extent
    kind: str

    @property
    def points(self) -> int:
        """The extent as a number; see `tilework.index.extents.known`."""
        return known(self.extent)

    @cached_property
    def open(self) -> bool:
        """Whether a run decides the extent."""
        return isinstance(self.extent, Symbolic)

    @cached_property
    def unit(self) -> bool:
        """Whether it has one point, wherever it runs."""
        return not self.open and self.extent == 1

    @property
    def most(self) -> int:
        """The greatest number that the extent may be."""
        return most(self.extent)

    @cached_property
    def typical(self) -> Typical:
        """What a search takes the extent for; nothing that decides code reads it."""
        return typical(self.extent)


@frozen(eq=False)
class Logic(Expr):
    """``and`` / ``or`` of two predicates."""

    op: str
    a: Expr
    b: Expr


@frozen(eq=False)
class Not(Expr):
    """Negation of a predicate."""

    a: Expr


@frozen(eq=False)
class Select(Expr):
    """``cond ? a : b``, both sides evaluated."""

    cond: Expr
    a: Expr
    b: Expr


@frozen(eq=False)
class IfThenElse(Expr):
    """``cond ? a : b`` where the side not taken is never evaluated: it may index out of range."""

    cond: Expr
    a: Expr
    b: Expr


@frozen(eq=False)
class Cast(Expr):
    """Conversion of ``a`` to the node's dtype."""

    a: Expr


@frozen(eq=False)
class Call(Expr):
    """A math function (`exp`, `log`, `sqrt`, ...) of its arguments."""

    name: str
    args: tuple[Expr, ...]


@frozen(eq=False)
class Read(Expr):
    """One element of ``tensor`` at ``indices``."""

    tensor: Tensor
    indices: tuple[Expr, ...]


@frozen(eq=False)
class Lookup(Expr):
    """An element of a small constant matrix: ``values[indices]``.

    ``values`` is row-major over ``shape``. Once loops over the indices are expanded, the element
    is a literal; zeros and ones then cost no arithmetic.
    """

    name: str
    values: tuple[float, ...]
    shape: tuple[int, ...]
    indices: tuple[Expr, ...]


@frozen(eq=False)
class Reduce(Expr):
    """Reduction of ``source`` over ``axes``; ``kind`` is one of `REDUCTIONS`.

    Only allowed as the whole body of a compute op. ``max`` and ``min`` start from their neutral
    element and leave NaN out, in whatever order a schedule takes the elements: they give
    infinities where all elements are infinite, or NaN.

    Attributes:
        limits: numbers of terms that data decide: ``(axis, limit)`` runs the axis over
            ``0 <= axis < min(limit, axis.extent)``, where the limit is an ``int32`` expression of
            the spatial axes. A limit of 0 or less leaves the neutral element.
    """

    kind: str
    source: Expr
    axes: tuple[Axis, ...]
    limits: tuple[tuple[Axis, Expr], ...] = ()

    @property
    def identity(self) -> float:
        """The combiner's neutral element: an infinity for ``max`` and ``min`` of floats."""
        return reduce_identity(self.kind, self.dtype)


def reduce_identity(kind: str, dtype: str) -> float:
    """Neutral element of reduction ``kind`` over ``dtype``."""
    if kind in ("sum", "prod"):
        return 0 if kind == "sum" else 1
    if is_float(dtype):
        return math.inf if kind == "min" else -math.inf
    return integer_range(dtype)[kind == "min"]


@frozen(eq=False)
class Placeholder:
    """An input of the computation."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str


@frozen(eq=False)
class Compute:
    """A compute declaration: ``name[axes] = body`` for every point of the spatial axes."""

    name: str
    axes: tuple[Axis, ...]
    body: Expr
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        """Axes that the body reduces over; empty for an elementwise body."""
        return self.body.axes if isinstance(self.body, Reduce) else ()

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Extents of the spatial axes."""
        return tuple(a.extent for a in self.axes)

    @property
    def dtype(self) -> str:
        """Type of one element."""
        return self.body.dtype


Operation = Placeholder | Compute


@frozen(eq=False)
class Tensor:
    """A multi-dimensional value defined by ``op``; index it to read one element."""

    op: Operation

    @property
    def name(self) -> str:
        """Name of the defining operation."""
        return self.op.name

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Extents, outermost first."""
        return self.op.shape

    @property
    def dtype(self) -> str:
        """Type of one element."""
        return self.op.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def open_strides(self) -> tuple[bool, ...]:
        """Of each dimension, whether a run decides how far its neighbours lie apart."""
        last = max((d for d, n in enumerate(self.shape) if isinstance(n, Symbolic)), default=0)
        return tuple([d < last for d in range(self.ndim)])

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Read:
        idx = indices if isinstance(indices, tuple) else (indices,)
        if len(idx) != self.ndim:
            raise ValueError(
                f"tensor {self.name} has {self.ndim} dimensions but was read "
                f"with {len(idx)} indices"
            )
        return Read(self.dtype, self, tuple(wrap(i) for i in idx))

    def __call__(self, *indices: ExprLike) -> Read:
        """The same as indexing."""
        return self[tuple(indices)]
