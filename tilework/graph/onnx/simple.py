"""Operators of constants that NumPy has: what exporters compute of shapes.

The evaluator of the ``onnx`` package takes longer to import than most models to read, and half a
millisecond for a node. So it is left to what is not here, and to what goes wrong here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilework.graph.onnx.protos import numpy_type

Array = np.ndarray
Inputs = Sequence[Any]
"""Arrays; None for those left out."""
Attributes = Mapping[str, Any]


class NotSimple(Exception):
    """The evaluator has the word."""


def simple(op: str, attributes: Attributes, inputs: Inputs) -> Array:
    """The result of a standard operator, of whatever version.

    Raises:
        NotSimple: it is not here, or not for these inputs.
    """
    compute = _SIMPLE.get(op)
    if compute is None or any(x is not None and x.dtype.kind not in "biuf" for x in inputs):
        raise NotSimple
    try:
        with np.errstate(all="ignore"):
            return np.asarray(compute(attributes, inputs))
    except Exception as e:  # the inputs do not fit the operator: the evaluator says how
        raise NotSimple from e


def _alike(function: Callable[..., Any]) -> Callable[[Attributes, Inputs], Array]:
    """A function of two arrays, for inputs of one type."""

    def compute(attributes: Attributes, inputs: Inputs) -> Array:
        x, y = inputs
        if x.dtype != y.dtype:
            raise NotSimple
        return np.asarray(function(x, y))

    return compute


def _of_floats(function: Callable[[Array], Any]) -> Callable[[Attributes, Inputs], Array]:
    """A function of one array, for floats."""

    def compute(attributes: Attributes, inputs: Inputs) -> Array:
        (x,) = inputs
        if x.dtype.kind != "f":
            raise NotSimple
        return np.asarray(function(x))

    return compute


def _numbers(attributes: Attributes, inputs: Inputs, name: str, at: int) -> list[int] | None:
    """What early versions have as an attribute, and later ones as an input."""
    if name in attributes:
        return [int(n) for n in attributes[name]]
    given = inputs[at] if at < len(inputs) else None
    return None if given is None else [int(n) for n in given.reshape(-1)]


def _concat(attributes: Attributes, inputs: Inputs) -> Array:
    if len({x.dtype for x in inputs}) != 1:
        raise NotSimple
    return np.concatenate(inputs, axis=attributes["axis"])


def _expand(attributes: Attributes, inputs: Inputs) -> Array:
    x, shape = inputs
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, shape)))).copy()


def _range(attributes: Attributes, inputs: Inputs) -> Array:
    start, limit, delta = inputs
    if start.dtype.kind not in "iu":  # the evaluator has an opinion on how many floats there are
        raise NotSimple
    return np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype)


def _reshape(attributes: Attributes, inputs: Inputs) -> Array:
    x: Array = inputs[0]
    shape: Array = inputs[1]
    if attributes.get("allowzero") and not shape.all():
        raise NotSimple
    return x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)])


def _slice(attributes: Attributes, inputs: Inputs) -> Array:
    x: Array = inputs[0]
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (
        _numbers(attributes, inputs, n, i) for i, n in enumerate(names, 1)
    )
    if starts is None or ends is None:
        raise NotSimple
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    where = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -x.ndim <= axis < x.ndim or where[axis] != slice(None):
            raise NotSimple
        where[axis] = slice(start, end, step)
    return x[tuple(where)]


def _axes(attributes: Attributes, inputs: Inputs) -> tuple[int, ...] | None:
    """Axes that come or go. To early operators each is of what those before it left."""
    axes = _numbers(attributes, inputs, "axes", 1)
    if axes is None:
        return None
    if len(axes) > 1 and [-1, *axes] != sorted({-1, *axes}):
        raise NotSimple
    return tuple(axes)


def _unsqueeze(attributes: Attributes, inputs: Inputs) -> Array:
    axes = _axes(attributes, inputs)
    if axes is None:
        raise NotSimple
    return np.expand_dims(inputs[0], axes)


def _cast(x: Array, to: np.dtype[Any]) -> Array:
    if to.kind not in "biuf":
        raise NotSimple
    return x.astype(to)


def _filled(attributes: Attributes, inputs: Inputs) -> Array:
    if "value" in attributes:  # a tensor
        raise NotSimple
    return np.zeros([int(n) for n in inputs[0]], np.float32)


def _div(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.asarray(np.divide(x, y))
    if (x < 0).any() or (y <= 0).any():  # rounded towards zero
        raise NotSimple
    return np.asarray(np.floor_divide(x, y))


def _where(attributes: Attributes, inputs: Inputs) -> Array:
    condition, x, y = inputs
    if condition.dtype != bool or x.dtype != y.dtype:
        raise NotSimple
    return np.asarray(np.where(condition, x, y))


def _cumsum(attributes: Attributes, inputs: Inputs) -> Array:
    x, axis = inputs
    if attributes.get("exclusive") or attributes.get("reverse") or x.dtype.kind != "i":
        raise NotSimple
    return np.asarray(np.cumsum(x, int(axis.item()), x.dtype))


_SIMPLE: dict[str, Callable[[Attributes, Inputs], Array]] = {
    "Abs": lambda a, xs: np.absolute(*xs),
    "Add": _alike(np.add),
    "And": _alike(np.logical_and),
    "Cast": lambda a, xs: _cast(xs[0], numpy_type(a["to"])),
    "CastLike": lambda a, xs: _cast(xs[0], xs[1].dtype),
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Cos": _of_floats(np.cos),
    "CumSum": _cumsum,
    "Div": _alike(_div),
    "Equal": _alike(np.equal),
    "Expand": _expand,
    "Gather": lambda a, xs: np.take(xs[0], xs[1], axis=a.get("axis", 0)),
    "Greater": _alike(np.greater),
    "GreaterOrEqual": _alike(np.greater_equal),
    "Identity": lambda a, xs: xs[0].copy(),
    "Less": _alike(np.less),
    "LessOrEqual": _alike(np.less_equal),
    "Log": _of_floats(np.log),
    "MatMul": _alike(np.matmul),
    "Max": _alike(np.maximum),
    "Min": _alike(np.minimum),
    "Mul": _alike(np.multiply),
    "Not": lambda a, xs: np.logical_not(*xs),
    "Or": _alike(np.logical_or),
    "Range": _range,
    "Relu": _of_floats(lambda x: np.maximum(x, x.dtype.type(0))),
    "Reshape": _reshape,
    "Sin": _of_floats(np.sin),
    "Slice": _slice,
    "Squeeze": lambda a, xs: np.squeeze(xs[0], _axes(a, xs)),
    "Sub": _alike(np.subtract),
    "Tile": lambda a, xs: np.tile(*xs),
    "Transpose": lambda a, xs: np.transpose(xs[0], a.get("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
