"""Elementwise and broadcasting operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilework import te
from tilework.index.extents import Extent
from tilework.index.symbols import same
from tilework.ops import scalars
from tilework.ops.activations import ACTIVATIONS
from tilework.ops.storage import computed

_Scalar = Callable[..., te.Expr]

# functions of one float: those of te of the same name, and others that are built of them
UNARY = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "floor", "ceil", "round",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip
_UNARY: dict[str, _Scalar] = {name: getattr(te, name) for name in UNARY}

# functions of one number of any type
SIGNED_UNARY: dict[str, _Scalar] = {
    "abs": te.abs,
    "neg": scalars.neg,
    "sign": te.sign,
}

ARITHMETIC: dict[str, _Scalar] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": scalars.divide,
    "quotient": scalars.divide,  # what is rounded next: never a product with the reciprocal
    "maximum": scalars.maximum,
    "minimum": scalars.minimum,
    "at_least": te.maximum,  # of a limit: one that is NaN does not limit
    "at_most": te.minimum,
    "power": scalars.power,
    "floor_mod": scalars.floor_mod,
    "truncated_mod": scalars.truncated_mod,
    "prelu": scalars.prelu,
}

COMPARISONS: dict[str, _Scalar] = {
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "equal": te.equal,
    "not_equal": te.not_equal,
}

LOGIC: dict[str, _Scalar] = {
    "logical_and": te.all,
    "logical_or": te.any,
    "logical_xor": te.logical_xor,
    "logical_not": te.logical_not,
}

BITWISE: dict[str, _Scalar] = {
    "bitwise_and": te.bitwise_and,
    "bitwise_or": te.bitwise_or,
    "bitwise_xor": te.bitwise_xor,
    "shift_left": te.shift_left,
    "shift_right": te.shift_right,
}

PREDICATES: dict[str, _Scalar] = {"isnan": te.isnan, "isinf": scalars.isinf}

# every elementwise operator by name, but for `clip` and `copy`
SCALARS: dict[str, _Scalar] = {
    **_UNARY, **SIGNED_UNARY, **ARITHMETIC, **COMPARISONS, **LOGIC, **BITWISE, **PREDICATES,
    **ACTIVATIONS, "relu": te.relu, "reciprocal": scalars.reciprocal, "where": te.select,
    "bitwise_not": te.bitwise_not, "cast": scalars.cast,
}  # fmt: skip


def broadcast_extent(column: Sequence[Extent]) -> Extent | None:
    """What the extents of one dimension broadcast to, None where they do not.

    Raises:
        Undecided: at some points they do, and at others they do not.
    """
    first: Extent = 1
    for extent in column:
        if first == 1:
            first = extent
        elif extent != 1 and extent != first and not same(extent, first):
            return None
    return first


def broadcast_shape(*shapes: Sequence[Extent]) -> tuple[Extent, ...]:
    """NumPy's broadcast shape.

    Raises:
        ValueError: the shapes do not broadcast.
        Undecided: at some points they do, and at others they do not.
    """
    rank = max(len(s) for s in shapes)
    out: list[Extent] = []
    for column in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        extent = broadcast_extent(column)
        if extent is None:
            raise ValueError(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")
        out.append(extent)
    return tuple(out)


def broadcast_index(
    tensor: te.Tensor, axes: Sequence[te.Expr], shape: Sequence[Extent]
) -> te.Expr:
    """Read ``tensor`` at the position that broadcasts to ``axes`` of a result of ``shape``."""
    skip = len(axes) - tensor.ndim
    return tensor[
        tuple(
            axes[d + skip] if extent == shape[d + skip] else te.const(0, "int32")
            for d, extent in enumerate(tensor.shape)
        )
    ]


def elementwise(function: str, *operands: te.Tensor, **attrs: Any) -> te.Tensor:
    """Apply a function of `SCALARS` to broadcast operands, element by element.

    Raises:
        ValueError: no such function, or the shapes do not broadcast.
    """
    if function not in SCALARS:
        known = ", ".join(SCALARS)
        raise ValueError(f"'{function}' is not an elementwise function; known: {known}")
    fn = SCALARS[function]
    shape = broadcast_shape(*(x.shape for x in operands))
    return te.compute(
        shape,
        lambda *ax: fn(*(computed(broadcast_index(x, ax, shape)) for x in operands), **attrs),
        name=f"T_{function}",
    )


def _binary(function: str, doc: str) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    def fn(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return elementwise(function, a, b)

    fn.__name__, fn.__doc__ = function, doc
    return fn


add = _binary("add", "Broadcasting sum.")
subtract = _binary("subtract", "Broadcasting difference.")
multiply = _binary("multiply", "Broadcasting product.")
divide = _binary("divide", "Broadcasting quotient; of integers, rounded towards zero.")
maximum = _binary("maximum", "Broadcasting maximum; NaN where either is NaN.")
minimum = _binary("minimum", "Broadcasting minimum; NaN where either is NaN.")


def relu(x: te.Tensor) -> te.Tensor:
    """``max(x, 0)``; NaN stays."""
    return elementwise("relu", x)


def clip(x: te.Tensor, low: float, high: float) -> te.Tensor:
    """``x`` limited to the closed interval from ``low`` to ``high``; NaN stays."""

    def body(*ax: te.Expr) -> te.Expr:
        v = computed(x[ax])
        return te.maximum(te.minimum(v, te.const(high, v.dtype)), te.const(low, v.dtype))

    return te.compute(x.shape, body, name="T_clip")


def copy(x: te.Tensor) -> te.Tensor:
    """``x`` itself, in its own memory."""
    return te.compute(x.shape, lambda *ax: x[ax], name="T_copy")
