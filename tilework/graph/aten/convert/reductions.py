"""Reductions: sums, extrema, means, norms, positions of extrema; running sums."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tilework.graph.aten.context import (
    AtenContext,
    Converter,
    Unsupported,
    Value,
    few_enough,
    used,
)

_FEATURE_MAPS = (3, 4, 5)  # dimensions of what may run in either layout


def reduced(c: AtenContext, kind: str, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """A reduction over some dimensions, or all."""
    shape = c.shape(x)
    axes = c.axes(dim, len(shape))
    if not axes:
        return c.op("abs", x) if kind in ("l1", "l2") else x
    spatial = tuple(range(2, len(shape)))
    maps = kind == "mean" and c.dtype(x) == "float32" and len(shape) in _FEATURE_MAPS
    if maps and axes == spatial:
        y = c.op("global_avg_pool", x, layout="NCHW")
    elif keepdim or len(shape) in _FEATURE_MAPS:
        # with all dimensions it can run in either layout of feature maps; the view costs nothing
        y = c.op(f"reduce_{kind}", x, axes=axes, keepdims=True)
    else:
        return c.op(f"reduce_{kind}", x, axes=axes, keepdims=False)
    return y if keepdim else c.reshape(y, [n for d, n in enumerate(shape) if d not in axes])


def _reduction(
    kind: str,
    c: AtenContext,
    x: Any,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Value:
    return reduced(c, kind, c.value(x, c.output_dtype()), dim, keepdim)


def _total(kind: str) -> Converter:
    """Over all dimensions."""
    return lambda c, x, dtype=None: reduced(c, kind, c.value(x, c.output_dtype()), None)


def _truth(kind: str, c: AtenContext, x: Any, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether any element is true, or all are: extrema of bool."""
    y = reduced(c, kind, c.value(x, "bool"), dim, keepdim)
    return c.cast(y, c.output_dtype())


def _extremum(kind: str, c: AtenContext, x: Any, dim: int, keepdim: bool = False) -> Any:
    """Largest or smallest elements along a dimension, and where they are."""
    v = c.value(x)
    if not c.rank(v):
        raise Unsupported("of a scalar")
    values = reduced(c, kind, v, dim, keepdim)
    if not used(c, 1):
        return values, None
    axis = c.axis(dim, c.rank(v))
    return values, c.op(f"arg{kind}", v, axis=axis, keepdims=keepdim, last=False)


def _position(
    kind: str, c: AtenContext, x: Any, dim: int | None = None, keepdim: bool = False
) -> Value:
    v = c.value(x)
    rank = c.rank(v)
    if not rank or (dim is None and keepdim):
        raise Unsupported("of a scalar, or of all dimensions with each kept")
    if c.dtype(v) == "bool":
        raise Unsupported("of bool")
    if dim is None:
        v, dim, rank = c.reshape(v, (math.prod(c.shape(v)),)), 0, 1
    return c.op(f"arg{kind}", v, axis=c.axis(dim, rank), keepdims=keepdim, last=False)


def _variance(
    c: AtenContext,
    x: Any,
    dim: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> Value:
    v = c.value(x)
    shape = c.shape(v)
    axes = c.axes(dim, len(shape))
    count = math.prod(shape[d] for d in axes)
    less = 1 if correction is None else correction
    less = int(less) if float(less).is_integer() else less
    if count <= less:
        raise Unsupported(f"of {count} elements")
    centred = c.op("subtract", v, c.op("reduce_mean", v, axes=axes, keepdims=True))
    y = reduced(c, "sum", c.op("multiply", centred, centred), list(axes), keepdim)
    if not isinstance(count, int):
        return c.op("divide", y, c.value(count - less, c.dtype(y)))
    return c.op("multiply", y, c.number(1.0 / (count - less), c.dtype(y)))


def _variance_and_mean(c: AtenContext, x: Any, dim: Any = None, **kwargs: Any) -> Any:
    keepdim = kwargs.get("keepdim", False)
    return _variance(c, x, dim, **kwargs), reduced(c, "mean", c.value(x), dim, keepdim)


def _norm(
    c: AtenContext,
    x: Any,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Value:
    kinds = {1: "l1", 2: "l2"}
    if ord not in kinds:
        raise Unsupported(f"a norm of order {ord}")
    return reduced(c, kinds[ord], c.value(x, c.output_dtype()), dim, keepdim)


def _cumulative(kind: str, c: AtenContext, x: Any, dim: int, *, dtype: Any = None) -> Value:
    v = c.value(x, c.output_dtype())
    if not c.rank(v):
        return v
    axis = c.axis(dim, c.rank(v))
    few_enough(c.shape(v)[axis])
    return c.op("cumulative", v, axis=axis, kind=kind, exclusive=False, reverse=False)


CONVERTERS: dict[str, Converter] = {
    **{f"{kind}.default": _total(kind) for kind in ("sum", "mean", "prod")},
    "sum.dim_IntList": partial(_reduction, "sum"),
    "mean.dim": partial(_reduction, "mean"),
    "prod.dim_int": partial(_reduction, "prod"),
    **{f"a{kind}": partial(_reduction, kind) for kind in ("max", "min")},
    **{f"{kind}.default": partial(_reduction, kind) for kind in ("max", "min")},
    **{f"{kind}.dim": partial(_extremum, kind) for kind in ("max", "min")},
    **{f"arg{kind}": partial(_position, kind) for kind in ("max", "min")},
    "any": partial(_truth, "max"),
    "all": partial(_truth, "min"),
    "var.correction": _variance,
    "var_mean.correction": _variance_and_mean,
    "linalg_vector_norm": _norm,
    "cumsum": partial(_cumulative, "sum"),
    "cumprod": partial(_cumulative, "prod"),
}
