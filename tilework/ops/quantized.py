"""Quantised numbers: integers ``q`` that stand for ``(q - zero) * scale``.

What is computed is exact to the last bit, as the standard and ONNX Runtime's kernels have it, and
PyTorch's where asked: quotients are quotients, a product is rounded before anything is added to
it, ties go to the even number, and what does not fit is limited before it is converted.

Zero points are of the type of the numbers, or are given as float32, and the type by its name,
``of``. With ``whole`` numbers stay float32, for what dequantises them at once.
"""

from __future__ import annotations

from tilework import te
from tilework.dtypes import integer_range
from tilework.ops import scalars
from tilework.ops.elementwise import broadcast_index
from tilework.ops.storage import computed

VALUES = 256
"""How many a byte has."""


def quantize(
    x: te.Tensor,
    scale: te.Tensor,
    zero: te.Tensor,
    inverse: te.Tensor | None = None,
    reciprocal: bool = False,
    of: str = "",
    whole: bool = False,
    fits: bool = False,
) -> te.Tensor:
    """``x / scale`` in float32, rounded, plus ``zero``, in the type of that; NaN is its least.

    ``scale`` and ``zero`` broadcast to ``x``, and so does ``inverse``, which is ``1 / scale``, of
    a scale between 1e-30 and 1e30. With ``reciprocal`` it is ``x * (1 / scale)``, two
    roundings instead of one, as PyTorch has it: another integer where a quotient is half of one.
    With ``fits`` quotients are known to be in the range of int32, and zero points are such.
    """

    def element(*ax: te.Expr) -> te.Expr:
        number, step = computed(x[ax]), broadcast_index(scale, ax, x.shape)
        by = None if inverse is None else broadcast_index(inverse, ax, x.shape)
        if reciprocal:
            quotient = number * (scalars.divide(te.const(1.0), step) if by is None else by)
        elif by is None:
            quotient = scalars.divide(number, step)
        else:
            quotient = te.quotient(number, step, by)
        rounded = _rounded(quotient, fits and not whole)
        return _saturated(rounded, broadcast_index(zero, ax, x.shape), of, whole)

    return te.compute(x.shape, element, name="T_quantize")


def dequantize(x: te.Tensor, scale: te.Tensor, zero: te.Tensor) -> te.Tensor:
    """``(x - zero) * scale``: the difference in int32, the product in float32.

    With a zero point of float32, which numbers of two bytes have, the difference is as exact.
    """
    exact = "float32" if zero.dtype == "float32" else "int32"

    def element(*ax: te.Expr) -> te.Expr:
        whole = te.cast(exact, x[ax]) - te.cast(exact, broadcast_index(zero, ax, x.shape))
        return te.rounded(te.cast("float32", whole) * broadcast_index(scale, ax, x.shape))

    return te.compute(x.shape, element, name="T_dequantize")


def requantize(
    x: te.Tensor,
    init: te.Tensor,
    scale: te.Tensor,
    zero: te.Tensor,
    of: str = "",
    whole: bool = False,
    fits: bool = False,
) -> te.Tensor:
    """``(x + init) * scale`` of int32 sums, rounded, plus ``zero``, in the type of that.

    With ``fits`` products are known to be in the range of int32, and zero points are such.
    """

    def element(*ax: te.Expr) -> te.Expr:
        total = te.cast("float32", x[ax] + broadcast_index(init, ax, x.shape))
        scaled = te.rounded(total * broadcast_index(scale, ax, x.shape))
        rounded = _rounded(scaled, fits and not whole)
        return _saturated(rounded, broadcast_index(zero, ax, x.shape), of, whole)

    return te.compute(x.shape, element, name="T_requantize")


def flip_sign(x: te.Tensor) -> te.Tensor:
    """Bytes without a sign as bytes with one, 128 less, and the other way round."""
    unsigned = x.dtype == "uint8"

    def element(*ax: te.Expr) -> te.Expr:
        if unsigned:
            return te.cast("int8", te.bitwise_xor(x[ax], te.const(128, "uint8")))
        return te.bitwise_xor(te.cast("uint8", x[ax]), te.const(128, "uint8"))

    return te.compute(x.shape, element, name="T_flip_sign")


def lookup(x: te.Tensor, table: te.Tensor) -> te.Tensor:
    """The byte of ``table`` for each byte of ``x``; that of a negative one is 256 behind."""

    def element(*ax: te.Expr) -> te.Expr:
        return table[te.cast("int32", te.cast("uint8", x[ax]))]

    return te.compute(x.shape, element, name="T_lookup")


def _rounded(x: te.Expr, integer: bool) -> te.Expr:
    whole = te.round(x)
    return te.cast("int32", whole) if integer else whole


def _saturated(rounded: te.Expr, zero: te.Expr, of: str, whole: bool) -> te.Expr:
    """Whole numbers plus a zero point, within the range of their type, and then in that type."""
    dtype = of or zero.dtype
    low, high = (scalars.literal(v, rounded.dtype) for v in integer_range(dtype))
    y = rounded + te.cast(rounded.dtype, zero)
    clamped = te.minimum(te.maximum(low, y), high)
    return clamped if whole else te.cast(dtype, clamped)
