"""Quantised numbers, and what becomes of sums of their products.

    quantize(x, scale, zero)        float32 -> the type of zero; with the attribute `reciprocal` by
                                    a product with 1 / scale, as PyTorch has it
    dequantize(x, scale, zero)      integers, int32 included -> float32
    requantize(x, init, scale, zero)  int32 -> the type of zero
    flip_sign(x)                    uint8 -> int8, 128 less; int8 -> uint8, 128 more

Scales and zero points broadcast to ``x``; what they mean: `tilework.ops.quantized`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilework.graph.operators.base import (
    BYTES,
    WORDS,
    Attrs,
    Declare,
    Infer,
    Operator,
    Pattern,
    ValueType,
    broadcast,
    common_dtype,
    declared,
    unmoved,
)
from tilework.ops import quantized

QUANTIZED = (*BYTES, *WORDS)
"""Element types of quantised numbers."""
_FLOAT = ("float32",)


def _infer(
    given: Sequence[str],
    parts: Sequence[Sequence[str]],
    to: str | None,
    types: Sequence[ValueType],
    attrs: Attrs,
) -> ValueType:
    """The type of the first input where the others broadcast to it.

    Args:
        given: types of the first input.
        parts: types of the others.
        to: type of the result; None for that of the last input.
    """
    if len(types) != 1 + len(parts):
        raise ValueError(f"it takes {1 + len(parts)} operands, got {len(types)}")
    x, *others = types
    common_dtype([x], given)
    for other, dtypes in zip(others, parts, strict=True):
        common_dtype([other], dtypes)
        if broadcast((x.shape, other.shape)) != x.shape:
            raise ValueError(f"{list(other.shape)} does not broadcast to {list(x.shape)}")
    return ValueType(x.shape, types[-1].dtype if to is None else to)


def _infer_dequantize(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    common_dtype([types[0], types[-1]])
    integers = (*QUANTIZED, "int32")
    return _infer(integers, (_FLOAT, integers), "float32", types, attrs)


def _infer_flip(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,) = types
    return ValueType(x.shape, "uint8" if common_dtype([x], BYTES) == "int8" else "int8")


def _operator(name: str, infer: Infer, declare: Declare) -> Operator:
    return Operator(name, infer, declare, Pattern.BROADCAST, unmoved)


OPERATORS = (
    _operator(
        "quantize",
        partial(_infer, _FLOAT, (_FLOAT, QUANTIZED), None),
        declared(quantized.quantize, "reciprocal"),
    ),
    _operator("dequantize", _infer_dequantize, declared(quantized.dequantize)),
    _operator(
        "requantize",
        partial(_infer, ("int32",), (("int32",), _FLOAT, QUANTIZED), None),
        declared(quantized.requantize),
    ),
    Operator(
        "flip_sign", _infer_flip, declared(quantized.flip_sign), Pattern.ELEMENTWISE, unmoved
    ),
)
