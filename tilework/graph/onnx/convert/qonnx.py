"""Operators of QONNX, as Brevitas writes them: whole numbers of any bits that stand as floats.

``Quant`` is ``(round(limited(x / scale + zero)) - zero) * scale``; a number of bits says the
limits. Numbers of bytes become the network's ``quantize`` and ``dequantize``, of which products of
bytes are made, as from a file of ``QuantizeLinear``. A bias of floats stays one: of few bits, the
sums' scale is too coarse for it.
"""

from __future__ import annotations

import numpy as np

from tilework.graph.onnx.context import (
    ConstantNeeded,
    Converter,
    OnnxContext,
    Unsupported,
    attributes,
)
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, room, value

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
_ROUNDED = {"ROUND": "round", "HALF_EVEN": "round", "CEIL": "ceil", "FLOOR": "floor"}
_MOST_BITS = 32


def _quant(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    signed, narrow = bool(a.get("signed", 1)), bool(a.get("narrow", 0))
    mode = a.get("rounding_mode", "ROUND").upper()
    if mode not in _ROUNDED:
        raise Unsupported(f"rounding_mode '{mode}' is not supported")
    bits = _bits(c, node.input[3])
    x, scale, zero = (value(c, name) for name in node.input[:3])
    if signed and bits == 1:
        y = x.op("quotient", scale) + zero
        return ((_signs(y) - zero) * scale).name
    least, most = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    limits = least + (signed and narrow), most - 1 - (narrow and not signed)
    numbers = _bytes(c, node, limits) if mode != "CEIL" and mode != "FLOOR" else None
    if numbers is not None:
        scale, point = _one(scale), numbers.constant(0)
        return numbers.op("dequantize", scale, point, keeps_bias=True).name
    y = (x.op("quotient", scale) + zero).clamped(*limits).op(_ROUNDED[mode])
    return ((y - zero) * scale).name


def _bits(c: OnnxContext, name: str) -> int:
    """The number of bits, one for all elements."""
    array = c.constants.get(name)
    if array is None:
        raise ConstantNeeded(name, "the number of bits")
    bits = float(array.reshape(-1)[0]) if array.size == 1 else 0.5
    if bits != int(bits) or not 1 <= bits <= _MOST_BITS:
        raise Unsupported(f"numbers of {array.reshape(-1)[:4].tolist()} bits are not supported")
    return int(bits)


def _bytes(c: OnnxContext, node: NodeProto, limits: tuple[int, int]) -> Value | None:
    """The whole numbers as bytes without a zero point; None where they are none."""
    x, scales, zeros = (c.constants.get(name) for name in node.input[:3])
    if scales is None or zeros is None or zeros.any() or scales.dtype != np.float32:
        return None
    if (
        not (np.isfinite(scales).all() and (scales > 0).all())
        or c.dtype(node.input[0]) != "float32"
    ):
        return None
    kinds = (np.dtype(np.int8), np.dtype(np.uint8))
    kind = next((k for k in kinds if _within(limits, k)), None)
    if kind is None:
        return None
    if x is not None:
        room(c, x.size)
        with np.errstate(invalid="ignore"):
            whole = np.nan_to_num(np.rint(x / scales), nan=limits[0]).clip(*limits)
        return constant(c, whole.astype(kind))
    data, scale = value(c, node.input[0]), _one(value(c, node.input[1]))
    numbers = data.op("quantize", scale, constant(c, np.zeros((), kind)))
    info = np.iinfo(kind)
    return numbers if limits == (info.min, info.max) else numbers.clamped(*limits)


def _within(limits: tuple[int, int], kind: np.dtype[np.int8] | np.dtype[np.uint8]) -> bool:
    info = np.iinfo(kind)
    return bool(info.min <= limits[0] and limits[1] <= info.max)


def _one(scale: Value) -> Value:
    """A scale of one element as a scalar; others broadcast as they are."""
    return scale.reshape() if scale.shape and all(n == 1 for n in scale.shape) else scale


def _bipolar(c: OnnxContext, node: NodeProto) -> str:
    return (_signs(value(c, node.input[0])) * value(c, node.input[1])).name


def _signs(x: Value) -> Value:
    """1 where a number is not negative, else -1."""
    return x.constant(1.0).where(x >= 0.0, -1.0)


CONVERTERS: dict[str, Converter] = {"Quant": _quant, "IntQuant": _quant, "BipolarQuant": _bipolar}
