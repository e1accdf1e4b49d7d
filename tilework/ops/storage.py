"""Element types that tensors are stored in, and in which their values are computed."""

from __future__ import annotations

from tilework import te


def computed(e: te.Expr) -> te.Expr:
    """The value as operators compute with it: bfloat16 becomes float32, others stay."""
    return te.cast("float32", e) if e.dtype == "bfloat16" else e


def stored(x: te.Tensor, dtype: str) -> te.Tensor:
    """``x`` with elements of ``dtype``: itself, or a stage that converts it."""
    if x.dtype == dtype:
        return x
    names = [f"ax{d}" for d in range(x.ndim)]
    return te.compute(x.shape, lambda *ax: te.cast(dtype, x[ax]), name="T_cast", axis_names=names)
