"""Element types that tensors are stored in, and in which their values are computed."""

from __future__ import annotations

from tilework import te
from tilework.te.dtypes import NARROW_FLOATS


def computed(e: te.Expr) -> te.Expr:
    """The value as operators compute with it: narrow floats become float32, others stay."""
    return te.cast("float32", e) if e.dtype in NARROW_FLOATS else e


def stored(x: te.Tensor, dtype: str) -> te.Tensor:
    """``x`` with elements of ``dtype``: itself, or a stage that converts it."""
    if x.dtype == dtype:
        return x
    names = [f"ax{d}" for d in range(x.ndim)]
    return te.compute(x.shape, lambda *ax: te.cast(dtype, x[ax]), name="T_cast", axis_names=names)
