"""Scales and zero points that no file should have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import OnnxContext, Unsupported


def check_parameters(c: OnnxContext, scale: str, zero: str, quantised: str | None) -> None:
    """Refuse scales and zero points that no file should have, where they are constants.

    Raises:
        Unsupported: a scale is no positive number, or a zero point is of another type or shape.
    """
    s = c.constants.get(scale)
    if s is not None and not (np.isfinite(s.astype(np.float64)) & (s > 0)).all():
        raise Unsupported(f"the scale '{scale}' holds {_odd(s)}; scales are positive numbers")
    if not zero:
        return
    if s is not None and zero in c.constants and c.constants[zero].size != s.size:
        sizes = f"{c.constants[zero].size} zero points '{zero}' for {s.size} scales '{scale}'"
        raise Unsupported(sizes)
    if quantised is not None and c.dtype(zero) != c.dtype(quantised):
        types = f"{c.dtype(zero)}, and what it belongs to {c.dtype(quantised)}"
        raise Unsupported(f"the zero point '{zero}' is {types}")


def _odd(scale: NDArray[Any]) -> float:
    """The first element that is no positive number."""
    flat = scale.astype(np.float64).reshape(-1)
    return float(flat[~(np.isfinite(flat) & (flat > 0))][0])
