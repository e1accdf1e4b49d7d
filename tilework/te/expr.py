"""Expression nodes of tensor expressions: what a compute declaration's body is made of.

An expression is an immutable tree. Nodes compare by identity; structural equality is the business
of the canonical text (`te.key`). Index arithmetic has dtype ``int32``, predicates ``bool``.
Tensors stand here, too: a read names a tensor, whose declaration is an expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

ExprLike = Union["Expr", int, float, bool]  # also NumPy scalars, which `wrap` unpacks

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
NARROW_FLOATS = ("float16", "bfloat16")
"""Types to store: their values are compared and moved, but computed with in float32."""


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` names a floating-point type."""
    return dtype in FLOAT_DTYPES


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` names an integer type (``bool`` is none)."""
    return dtype.startswith(("int", "uint"))


def is_unsigned(dtype: str) -> bool:
    """Whether ``dtype`` names a type without negative numbers."""
    return dtype == "bool" or dtype.startswith("uint")


_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of ``dtype``.

    Raises:
        TypeError: no such element type.
    """
    if dtype not in _BYTES:
        raise TypeError(f"unknown dtype {dtype!r}; known: {', '.join(_BYTES)}")
    return _BYTES[dtype]


@dataclass(frozen=True, eq=False)
class Expr:
    """Base of all expression nodes; ``dtype`` is the NumPy name of the value's type."""

    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("%", other, self)

    def __neg__(self) -> Expr:
        return binary("-", Const(self.dtype, 0), self)

    def __lt__(self, other: ExprLike) -> Expr:
        return compare("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return compare("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return compare(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return compare(">=", self, other)

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor expression has no truth value while the computation is declared; "
            "use te.all / te.any / te.if_then_else instead of and / or / if"
        )


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A literal."""

    value: float | int | bool


@dataclass(frozen=True, eq=False)
class Axis(Expr):
    """An iteration axis ``0 <= name < extent``; ``kind`` is ``"spatial"`` or ``"reduce"``."""

    name: str
    extent: int
    kind: str


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    """Arithmetic, of the operators `BINARY`; both sides have the node's dtype.

    ``//`` and ``%`` round down, ``quot`` and ``rem`` towards zero; integers wrap around.
    """

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class Compare(Expr):
    """A comparison ``< <= > >= == !=``; dtype ``bool``."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class Logic(Expr):
    """``and`` / ``or`` of two predicates."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class Not(Expr):
    """Negation of a predicate."""

    a: Expr


@dataclass(frozen=True, eq=False)
class Select(Expr):
    """``cond ? a : b``, both sides evaluated."""

    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class IfThenElse(Expr):
    """``cond ? a : b`` where the side not taken is never evaluated: it may index out of range."""

    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    """Conversion of ``a`` to the node's dtype."""

    a: Expr


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A math function (`exp`, `log`, `sqrt`, ...) of its arguments."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Read(Expr):
    """One element of ``tensor`` at ``indices``."""

    tensor: Tensor
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Lookup(Expr):
    """An element of a small constant matrix: ``values[indices]``.

    ``values`` is row-major over ``shape``. Once loops over the indices are expanded, the element
    is a literal; zeros and ones then cost no arithmetic.
    """

    name: str
    values: tuple[float, ...]
    shape: tuple[int, ...]
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Reduce(Expr):
    """Reduction of ``source`` over ``axes``; ``kind`` is one of `REDUCTIONS`.

    Only allowed as the whole body of a compute op. ``max`` and ``min`` give infinities where all
    elements are infinite; whether they pass a NaN on depends on where it stands (a comparison with
    it fails), as in ONNX Runtime.

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


@dataclass(frozen=True, eq=False)
class Placeholder:
    """An input of the computation."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, eq=False)
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
    def shape(self) -> tuple[int, ...]:
        """Extents of the spatial axes."""
        return tuple(a.extent for a in self.axes)

    @property
    def dtype(self) -> str:
        """Type of one element."""
        return self.body.dtype


Operation = Placeholder | Compute


@dataclass(frozen=True, eq=False)
class Tensor:
    """A multi-dimensional value defined by ``op``; index it to read one element."""

    op: Operation

    @property
    def name(self) -> str:
        """Name of the defining operation."""
        return self.op.name

    @property
    def shape(self) -> tuple[int, ...]:
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


INTEGER_OPS = ("//", "%", "quot", "rem", "&", "|", "^", "<<", ">>")
BINARY = ("+", "-", "*", "/", "max", "min", *INTEGER_OPS)
REDUCTIONS = ("sum", "prod", "max", "min")


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer type, or of ``bool``."""
    if dtype == "bool":
        return 0, 1
    bits = 8 * dtype_bytes(dtype)
    return (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrapped(value: int, dtype: str) -> int:
    """``value`` as an element of an integer type holds it: modulo a power of two."""
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


_LARGEST = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}  # fmt: skip


def finite_range(dtype: str) -> tuple[float, float]:
    """Least and greatest finite value of a type."""
    if is_float(dtype):
        return -_LARGEST[dtype], _LARGEST[dtype]
    return integer_range(dtype)


def reduce_identity(kind: str, dtype: str) -> float:
    """Neutral element of reduction ``kind`` over ``dtype``."""
    if kind in ("sum", "prod"):
        return 0 if kind == "sum" else 1
    if is_float(dtype):
        return math.inf if kind == "min" else -math.inf
    return integer_range(dtype)[kind == "min"]


def wrap(value: ExprLike, dtype: str = "int32") -> Expr:
    """Turn a Python number into a `Const` of ``dtype``; expressions pass through."""
    if isinstance(value, Expr):
        return value
    unpack = getattr(value, "item", None)
    if unpack is not None:  # a NumPy scalar
        return wrap(unpack(), dtype)
    if isinstance(value, bool):
        return Const("bool", value)
    if isinstance(value, int):
        return Const(dtype, float(value) if is_float(dtype) else _in_range(value, dtype))
    if isinstance(value, float):
        return Const(dtype if is_float(dtype) else "float32", value)
    raise TypeError(f"cannot use {value!r} of type {type(value).__name__} in a tensor expression")


def _in_range(value: int, dtype: str) -> int:
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise ValueError(f"{value} is no {dtype}, which goes from {low} to {high}")
    return value


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
    "quot": _towards_zero,
    "rem": lambda a, b: a - b * _towards_zero(a, b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build ``a op b``, matching dtypes of literals and folding integer literals."""
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else "int32"
    a, b = wrap(a, dtype), wrap(b, dtype)
    if a.dtype != b.dtype:
        raise TypeError(f"operands of '{op}' have dtypes {a.dtype} and {b.dtype}; use te.cast")
    if a.dtype in NARROW_FLOATS and op not in ("max", "min"):
        raise TypeError(
            f"'{op}' is not defined for {a.dtype}, a type to store: te.cast to float32"
        )
    if op == "/" and not is_float(a.dtype):
        raise TypeError(f"'/' is not defined for {a.dtype}; use // or te.cast")
    if a.dtype == "bool" and op not in ("max", "min"):
        raise TypeError(f"'{op}' is not defined for bool; use te.all, te.any or te.cast")
    if is_float(a.dtype) and op in INTEGER_OPS:
        raise TypeError(f"'{op}' is not defined for {a.dtype}; it works on integers")
    if isinstance(a, Const) and isinstance(b, Const) and not is_float(a.dtype) and op in _FOLD:
        x, y = int(a.value), int(b.value)
        if y or op not in ("//", "%", "quot", "rem"):
            return Const(a.dtype, wrapped(_FOLD[op](x, y), a.dtype))
    if not is_float(a.dtype):
        if op in "+-" and isinstance(b, Const) and b.value == 0:
            return a
        if op == "+" and isinstance(a, Const) and a.value == 0:
            return b
        if op in ("*", "//", "quot") and isinstance(b, Const) and b.value == 1:
            return a
        if op == "*" and isinstance(a, Const) and a.value == 1:
            return b
    return Binary(a.dtype, op, a, b)


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build the predicate ``a op b``."""
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else "int32"
    a, b = wrap(a, dtype), wrap(b, dtype)
    if a.dtype != b.dtype:
        raise TypeError(f"operands of '{op}' have dtypes {a.dtype} and {b.dtype}; use te.cast")
    return Compare("bool", op, a, b)


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions of ``e``, left to right (indices for a `Read`).

    Those of a `Reduce` are its source and then its limits.
    """
    match e:
        case Binary() | Compare() | Logic():
            return (e.a, e.b)
        case Select() | IfThenElse():
            return (e.cond, e.a, e.b)
        case Not() | Cast():
            return (e.a,)
        case Call():
            return e.args
        case Read() | Lookup():
            return e.indices
        case Reduce():
            return (e.source, *(limit for _, limit in e.limits))
    return ()


def rebuild(e: Expr, kids: Sequence[Expr]) -> Expr:
    """A copy of ``e`` with its direct sub-expressions replaced (``e`` itself if unchanged)."""
    if all(x is y for x, y in zip(children(e), kids, strict=True)):
        return e
    match e:
        case Binary():
            return binary(e.op, kids[0], kids[1])
        case Compare():
            return Compare("bool", e.op, kids[0], kids[1])
        case Logic():
            return Logic("bool", e.op, kids[0], kids[1])
        case Select():
            return Select(e.dtype, kids[0], kids[1], kids[2])
        case IfThenElse():
            return IfThenElse(e.dtype, kids[0], kids[1], kids[2])
        case Not():
            return Not("bool", kids[0])
        case Cast():
            return Cast(e.dtype, kids[0])
        case Call():
            return Call(e.dtype, e.name, tuple(kids))
        case Read():
            return Read(e.dtype, e.tensor, tuple(kids))
        case Lookup():
            return Lookup(e.dtype, e.name, e.values, e.shape, tuple(kids))
        case Reduce():
            limits = zip((a for a, _ in e.limits), kids[1:], strict=True)
            return Reduce(e.dtype, e.kind, kids[0], e.axes, tuple(limits))
    raise TypeError(f"{type(e).__name__} has no sub-expressions")


def walk(e: Expr) -> Iterator[Expr]:
    """All nodes of ``e`` in pre-order."""
    yield e
    for child in children(e):
        yield from walk(child)


def substitute(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite top-down: where ``replace`` returns an expression it takes the node's place."""
    new = replace(e)
    if new is not None:
        return new
    kids = children(e)
    if not kids:
        return e
    return rebuild(e, [substitute(k, replace) for k in kids])


def replace_axes(e: Expr, mapping: dict[Axis, Expr]) -> Expr:
    """Replace axis variables by expressions."""
    return substitute(e, lambda n: mapping.get(n) if isinstance(n, Axis) else None)


def reads(e: Expr) -> list[Read]:
    """All tensor reads in ``e``, in order of appearance."""
    return [n for n in walk(e) if isinstance(n, Read)]


def linear_axes(read: Read) -> list[Axis | None] | None:
    """The axis that indexes each dimension (None for a literal 0), if all are that simple.

    Returns None when an index is anything else, or an axis indexes two dimensions.
    """
    out: list[Axis | None] = []
    for index in read.indices:
        if isinstance(index, Axis) and index not in out:
            out.append(index)
        elif isinstance(index, Const) and index.value == 0:
            out.append(None)
        else:
            return None
    return out
