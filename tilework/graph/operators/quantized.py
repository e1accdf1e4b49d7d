"""Quantised numbers, and what becomes of sums of their products.

    quantize(x, scale, zero)        float32 -> the type of zero; with the attribute `reciprocal` by
                                    a product with 1 / scale, as PyTorch has it
    dequantize(x, scale, zero)      integers, int32 included -> float32; with the attribute
                                    `keeps_bias`, what products of it add is not rounded
    requantize(x, init, scale, zero)  int32 -> the type of zero
    flip_sign(x)                    uint8 -> int8, 128 less; int8 -> uint8, 128 more
    lookup(x, table)                bytes -> those of a table of 256; see `graph.tabulated`

What is known of scales at compile time is made use of late (`settle_scales`): `quantize` may have
1 / scale as a fourth operand, and zero points may be float32, or int32 where the attribute `fits`
says that what is rounded is in that range. The attribute `of` is the type of the numbers then;
with `whole` they are float32 with values of that type, for `dequantize`.

Scales and zero points broadcast to ``x``; what they mean: `tilework.ops.quantized`.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    own = "float32" if attrs.get("whole") else attrs.get("of", types[-1].dtype)
    return ValueType(x.shape, own if to is None else to)


def _infer_dequantize(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    if types[-1].dtype == "float32":
        return _infer((*QUANTIZED, *_FLOAT), (_FLOAT, _FLOAT), "float32", types, attrs)
    common_dtype([types[0], types[-1]])
    integers = (*QUANTIZED, "int32")
    return _infer(integers, (_FLOAT, integers), "float32", types, attrs)


def _infer_quantize(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    inverse = (_FLOAT,) if len(types) > 3 else ()
    return _infer(_FLOAT, (_FLOAT, _zeros(attrs), *inverse), None, types, attrs)


def _zeros(attrs: Attrs) -> Sequence[str]:
    """Types of zero points of what is rounded."""
    if "of" not in attrs:
        return QUANTIZED
    return ("int32",) if attrs.get("fits") else _FLOAT


def _infer_requantize(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    return _infer(("int32",), (("int32",), _FLOAT, _zeros(attrs)), None, types, attrs)


def _infer_flip(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,) = types
    return ValueType(x.shape, "uint8" if common_dtype([x], BYTES) == "int8" else "int8")


def _infer_lookup(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, table = types
    for t in types:
        common_dtype([t], BYTES)
    if table.shape != (quantized.VALUES,):
        raise ValueError(f"a table of bytes has {quantized.VALUES}, not {list(table.shape)}")
    return ValueType(x.shape, table.dtype)


def _operator(name: str, infer: Infer, declare: Declare) -> Operator:
    return Operator(name, infer, declare, Pattern.BROADCAST, unmoved)


OPERATORS = (
    _operator(
        "quantize",
        _infer_quantize,
        declared(quantized.quantize, "reciprocal", "of", "whole", "fits"),
    ),
    _operator("dequantize", _infer_dequantize, declared(quantized.dequantize)),
    _operator(
        "requantize",
        _infer_requantize,
        declared(quantized.requantize, "of", "whole", "fits"),
    ),
    Operator(
        "flip_sign", _infer_flip, declared(quantized.flip_sign), Pattern.ELEMENTWISE, unmoved
    ),
    Operator("lookup", _infer_lookup, declared(quantized.lookup), Pattern.ELEMENTWISE),
)
