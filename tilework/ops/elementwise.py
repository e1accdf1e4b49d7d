"""Elementwise and broadcasting operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework import te
from tilework.ops.storage import computed

_Binary = Callable[[te.Expr, te.Expr], te.Expr]

# te functions of one argument that an elementwise operator of the same name applies
UNARY = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "abs", "erf", "floor", "ceil")


def axis_names(ndim: int) -> list[str]:
    """``ax0, ax1, ...``: the axis names of operators that treat all dimensions alike."""
    return [f"ax{d}" for d in range(ndim)]


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcast shape.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    rank = max(len(s) for s in shapes)
    out = []
    for column in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        extents = {e for e in column if e != 1}
        if len(extents) > 1:
            raise ValueError(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def broadcast_index(tensor: te.Tensor, axes: Sequence[te.Expr], shape: Sequence[int]) -> te.Expr:
    """Read ``tensor`` at the position that broadcasts to ``axes`` of a result of ``shape``."""
    skip = len(axes) - tensor.ndim
    return tensor[
        tuple(
            axes[d + skip] if extent == shape[d + skip] else te.const(0, "int32")
            for d, extent in enumerate(tensor.shape)
        )
    ]


def _binary(a: te.Tensor, b: te.Tensor, fn: _Binary, name: str) -> te.Tensor:
    shape = broadcast_shape(a.shape, b.shape)
    return te.compute(
        shape,
        lambda *ax: fn(
            computed(broadcast_index(a, ax, shape)), computed(broadcast_index(b, ax, shape))
        ),
        name=name,
        axis_names=axis_names(len(shape)),
    )


def _map(x: te.Tensor, fn: Callable[[te.Expr], te.Expr], name: str) -> te.Tensor:
    names = axis_names(x.ndim)
    return te.compute(x.shape, lambda *ax: fn(computed(x[ax])), name=name, axis_names=names)


def add(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting sum."""
    return _binary(a, b, lambda x, y: x + y, "T_add")


def subtract(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting difference."""
    return _binary(a, b, lambda x, y: x - y, "T_subtract")


def multiply(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting product."""
    return _binary(a, b, lambda x, y: x * y, "T_multiply")


def divide(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting quotient."""
    return _binary(a, b, lambda x, y: x / y, "T_divide")


def maximum(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting maximum."""
    return _binary(a, b, te.maximum, "T_maximum")


def minimum(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Broadcasting minimum."""
    return _binary(a, b, te.minimum, "T_minimum")


def relu(x: te.Tensor) -> te.Tensor:
    """``max(x, 0)``."""
    return _map(x, te.relu, "T_relu")


def clip(x: te.Tensor, low: float, high: float) -> te.Tensor:
    """``x`` limited to the closed interval from ``low`` to ``high``."""

    def body(v: te.Expr) -> te.Expr:
        return te.maximum(te.minimum(v, te.const(high, v.dtype)), te.const(low, v.dtype))

    return _map(x, body, "T_clip")


def unary(x: te.Tensor, function: str) -> te.Tensor:
    """A math function of `UNARY`, element by element."""
    if function not in UNARY:
        raise ValueError(f"'{function}' is not an elementwise function; known: {', '.join(UNARY)}")
    return _map(x, getattr(te, function), f"T_{function}")


def copy(x: te.Tensor) -> te.Tensor:
    """``x`` itself, in its own memory."""
    return te.compute(x.shape, lambda *ax: x[ax], name="T_copy", axis_names=axis_names(x.ndim))
