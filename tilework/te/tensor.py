"""Declaring tensors: placeholders and compute declarations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic, range_of
from tilework.te.arithmetic import Expr, ExprLike, wrap
from tilework.te.nodes import Axis, Compute, Operation, Placeholder, Reduce, Tensor
from tilework.te.trees import walk

__all__ = [
    "Compute", "Operation", "Placeholder", "Tensor", "compute", "make_compute", "placeholder",
    "reduce_axis",
]  # fmt: skip


def _extent(extent: Extent) -> Extent:
    return extent if isinstance(extent, Symbolic) else int(extent)


def _shape(shape: Sequence[Extent], name: str) -> tuple[Extent, ...]:
    out = tuple(map(_extent, shape))
    if any(range_of(s)[0] <= 0 for s in out):
        raise ValueError(f"tensor {name} has shape {list(out)}: every extent must be positive")
    return out


def placeholder(shape: Sequence[Extent], name: str = "p", dtype: str = "float32") -> Tensor:
    """Declare an input tensor; an extent that a run decides may be 0: then nothing is read."""
    dtype_bytes(dtype)  # refuses unknown types
    _shape([n for n in shape if not isinstance(n, Symbolic)], name)
    return Tensor(Placeholder(name, tuple(map(_extent, shape)), dtype))


def reduce_axis(extent: Extent, name: str = "k") -> Axis:
    """Declare a reduction axis ``0 <= name < extent``."""
    return Axis("int32", name, _extent(extent), "reduce")


def compute(
    shape: Sequence[Extent],
    fn: Callable[..., ExprLike],
    name: str = "T",
    attrs: Mapping[str, Any] | None = None,
    axis_names: Sequence[str] | None = None,
) -> Tensor:
    """Declare ``name[i, j, ...] = fn(i, j, ...)`` over ``shape``.

    Axis names are the parameters of ``fn`` unless given: of ``*i`` they are ``i0, i1, ...``.

    Raises:
        ValueError: axis names repeat, or a reduction is not at the top of the body.
    """
    extents = _shape(shape, name)
    names = list(axis_names) if axis_names is not None else _parameter_names(fn, len(extents))
    axes = tuple(Axis("int32", n, e, "spatial") for n, e in zip(names, extents, strict=True))
    body = wrap(fn(*axes), "float32")
    return Tensor(make_compute(name, axes, body, attrs or {}))


def make_compute(
    name: str, axes: tuple[Axis, ...], body: Expr, attrs: Mapping[str, Any]
) -> Compute:
    """Validate and build a compute op from its parts."""
    op = Compute(name, axes, body, dict(attrs))
    for node in walk(body):
        if isinstance(node, Reduce) and node is not body:
            raise ValueError(
                f"{name}: a reduction must be the whole body of a compute declaration"
            )
    names = [a.name for a in (*op.axes, *op.reduce_axes)]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"{name}: axis names must be unique, but {', '.join(twice)} repeats")
    return op


def _parameter_names(fn: Callable[..., object], ndim: int) -> list[str]:
    params = list(inspect.signature(fn).parameters.values())
    for p in params:
        if p.kind is p.VAR_POSITIONAL:
            return [f"{p.name}{d}" for d in range(ndim)]
    names = [p.name for p in params if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    if len(names) != ndim:
        raise ValueError(f"the function takes {len(names)} indices but the shape has {ndim}")
    return names
