"""Scales and zero points that no file should have."""

from __future__ import annotations

import numpy as np

from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.convert.float8 import FLOAT8

KEPT_AS = {
    "int2": "int8", "uint2": "uint8", "int4": "int8", "uint4": "uint8",
    **dict.fromkeys(FLOAT8, "float32"),
}  # fmt: skip
"""What numbers of few bits are kept as while a network runs."""


def check_parameters(
    c: OnnxContext,
    scale: str,
    zero: str,
    quantised: str | None,
    positive: bool = True,
    infinite: bool = False,
) -> None:
    """Refuse scales and zero points that no file should have, where they are constants.

    Args:
        c: the context.
        scale, zero: ONNX names; a zero point may be left out.
        quantised: what they belong to, if it is of the zero point's type.
        positive: whether scales are above zero. Those of blocks of weights have any sign: so ONNX
            Runtime's tool puts the largest magnitude at the end of the range that has one more.
        infinite: whether scales may be infinity, as that tool writes them of a mask's minus
            infinity.

    Raises:
        Unsupported: a scale is no such number, or a zero point is of another type or shape.
    """
    s = c.constants.get(scale)
    if s is not None:
        wide = s.astype(np.float64).reshape(-1)
        fine = np.isfinite(wide) | (infinite & np.isposinf(wide))
        odd = wide[~fine | (positive & ~(wide > 0))]
        if odd.size:
            what = "positive" if positive else "finite"
            raise Unsupported(f"the scale '{scale}' holds {odd[0]}; scales are {what} numbers")
    if not zero:
        return
    if s is not None and zero in c.constants and c.constants[zero].size != s.size:
        sizes = f"{c.constants[zero].size} zero points '{zero}' for {s.size} scales '{scale}'"
        raise Unsupported(sizes)
    if quantised is None:
        return
    own = c.dtype(zero)
    if quantised not in c.constants:
        own = KEPT_AS.get(own, own)
    if own != c.dtype(quantised):
        types = f"{c.dtype(zero)}, and what it belongs to {c.dtype(quantised)}"
        raise Unsupported(f"the zero point '{zero}' is {types}")


def infinite(c: OnnxContext, scale: str) -> bool:
    """Whether a scale is a constant that holds infinity: no product of bytes is right then."""
    s = c.constants.get(scale)
    return s is not None and not np.isfinite(s.astype(np.float64)).all()


def check_no_zero(c: OnnxContext, zero: str) -> None:
    """Refuse zero points other than 0, as numbers with an exponent have none.

    Raises:
        Unsupported: it is another one, or a run computes it.
    """
    if zero and (zero not in c.constants or c.constants[zero].astype(np.float32).any()):
        raise Unsupported(f"the zero point '{zero}' of numbers of {c.dtype(zero)} is not 0")
