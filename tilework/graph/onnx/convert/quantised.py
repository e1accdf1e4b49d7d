"""Quantised numbers: integers, their scale and their zero point.

What is quantised and dequantised by constants becomes the network's operators of these names, of
which `tilework.graph.passes.integer_products` makes products of bytes. The rest are plain
expressions of what the standard says, with exact integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import NARROW_FLOATS, integer_range, numpy_dtype
from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.elementwise import element_type
from tilework.graph.onnx.convert.float8 import FLOAT8, rounded
from tilework.graph.onnx.convert.matrices import product, reshaped
from tilework.graph.onnx.convert.packed import packed_matrix
from tilework.graph.onnx.convert.quantised_operators import (
    constant_parameters,
    quantised_conv,
    quantised_matmul,
)
from tilework.graph.onnx.convert.quantised_products import conv_of_bytes, product_of_bytes
from tilework.graph.onnx.convert.sampling import computed
from tilework.graph.onnx.convert.scales import check_no_zero, check_parameters, infinite
from tilework.graph.onnx.convert.spread import over, plain, repeated, spread
from tilework.graph.onnx.convert.windows import convolution
from tilework.graph.onnx.protos import NodeProto, messages, numpy_type
from tilework.graph.onnx.values import Value, constant, room, value
from tilework.index.extents import known_shape, most

_QUANTISED = ("int8", "uint8", "int16", "uint16")
_NIBBLES = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15)}
"""Types that constants alone have, and their least and greatest number."""
_UINT8, _NUMBERS = 2, {21: "uint4", 22: "int4", 25: "uint2", 26: "int2"}
"""ONNX's numbers of the type that `QuantizeLinear` has by default, and of those."""
_QUOTIENTS_AS_SCALES = 23
"""From this opset on quotients are rounded to the type of the scale, unless a file says more."""


def _matmul_integer(c: OnnxContext, node: NodeProto) -> str:
    for i in range(2):
        _check_type(c, node.input[i], optional(node, i + 2))
    of_bytes = product_of_bytes(c, node)
    if of_bytes is not None:
        return of_bytes
    between = _between(c, *node.input[:2])
    parts = ((node.input[i], optional(node, i + 2), i == 0) for i in range(2))
    a, b = (_shifted(c, *part, between) for part in parts)
    if between == "int32":
        return product(c, a, b, node.output[0])
    return c.op("cast", product(c, a, b, f"{node.output[0]}_sum"), to="int32")


def _between(c: OnnxContext, *operands: str) -> str:
    """The type that a product of two values is computed in: float32 where its sums are exact.

    That is as fast as products of floats are, and those of int32 are not.
    """
    size, names = c.shape(operands[0])[-1:], [c.dtype(x) for x in operands]
    short = all(name in ("int8", "uint8") for name in names) and len(size) == 1
    exact = short and most(size[0]) * _LARGEST_BYTE**2 <= _EXACT
    return "float32" if exact else "int32"


_LARGEST_BYTE, _EXACT = 255, 1 << 24
"""The magnitude of a byte without its zero point; up to which float32 holds all integers."""


def _quantized_matmul(c: OnnxContext, node: NodeProto) -> str:
    """``(a - za) (b - zb) sa sb / sy + zy``, rounded to the nearest and limited to the type."""
    i = node.input
    for at, zero, numbers in ((1, 2, i[0]), (4, 5, i[3]), (6, 7, None)):
        check_parameters(c, i[at], i[zero], numbers)
    weights = i[3] in c.constants and c.rank(i[3]) == 2
    if weights and constant_parameters(c, [*i[1:3], *i[4:]]) and _bytes(c, i[7]):
        return quantised_matmul(c, node)
    between = _between(c, i[0], i[3])
    a, b = (_shifted(c, i[at], i[at + 2], at == 0, between) for at in (0, 3))
    y = Value(c, product(c, a, b, f"{node.output[0]}_sum"))
    rows, columns, of_y = (value(c, node.input[i]).cast("float32") for i in (1, 4, 6))
    scale = (Value(c, _per_row(c, rows.name)) * columns).op("quotient", of_y)
    return _requantised(y, scale, value(c, node.input[7]))


def _bytes(c: OnnxContext, *names: str) -> bool:
    return all(c.dtype(n) in ("int8", "uint8") for n in names)


def _requantised(y: Value, scale: Value, zero: Value) -> str:
    """Sums of products as numbers of the type of ``zero``, with a scale and a zero point."""
    rounded = (y.cast("float32") * scale).op("round") + zero.cast("float32")
    return rounded.clamped(*integer_range(zero.dtype)).cast(zero.dtype).name


def _shifted(c: OnnxContext, name: str, zero: str, column: bool, to: str = "int32") -> str:
    """An integer operand as int32, or another type, with its zero point subtracted."""
    _check_type(c, name, zero)
    x = c.op("cast", c.value(name), to=to)
    if not zero:
        return x
    point = c.op("cast", c.value(zero), to=to)
    return c.op("subtract", x, _per_row(c, point) if column else point)


def _check_type(c: OnnxContext, name: str, zero: str) -> None:
    """Refuse operands that are no quantised numbers, and zero points of another type."""
    if c.dtype(name) not in _QUANTISED:
        raise Unsupported(f"'{name}' is {c.dtype(name)}, and a product of integers takes none")
    check_parameters(c, "", zero, name)


def _per_row(c: OnnxContext, value: str) -> str:
    """One number for each row of a matrix as a column; a single number as it is."""
    shape = c.b.shape(value)
    return reshaped(c, value, (*shape, 1)) if len(shape) == 1 and shape[0] != 1 else value


def _quantize(c: OnnxContext, node: NodeProto) -> str | NDArray[Any]:
    """``x / scale``, rounded to the nearest (ties to even), plus the zero point, and limited.

    Constants are quantised at import: weights that a file holds as floats, and of any type.
    """
    a = attributes(node)
    zero, names = optional(node, 2), [n for n in node.input if n]
    check_parameters(c, node.input[1], zero, None, infinite=True)
    number = a.get("output_dtype", 0) or _UINT8
    to = c.dtype(zero) if zero else _NUMBERS.get(number) or element_type(number)
    if to in FLOAT8:
        return _quantize_float8(c, node, a, to)
    if to not in (*_QUANTISED, *_NIBBLES):
        raise Unsupported(f"numbers quantised to {to} are not supported")
    of_scale = c.dtype(node.input[1])
    narrow = of_scale in NARROW_FLOATS and a.get("precision", 0) != messages().TensorProto.FLOAT
    narrow = narrow and c.opset >= _QUOTIENTS_AS_SCALES
    if all(n in c.constants for n in names):
        between = numpy_dtype(of_scale if narrow else "float32")
        kind = c.constants[zero].dtype if zero else numpy_type(number)
        return _quantized(c, a, kind, between, *(c.constants[n] for n in names))
    limits = _NIBBLES.get(to)
    if limits is not None:  # numbers of a byte, of which few are used
        to = "int8" if to.startswith("i") else "uint8"
    x, scale = (computed(value(c, i)) for i in node.input[:2])
    by_itself = narrow or infinite(c, node.input[1])
    if x.dtype == scale.dtype == "float32" and plain(scale, x.shape, a) and not by_itself:
        point = _byte(c, zero) if zero else constant(c, np.zeros((), numpy_dtype(to)))
        parts = over(scale, x.shape, a), over(point, x.shape, a)
        numbers = x.op("quantize", *parts)
        return (numbers if limits is None else numbers.clamped(*limits)).name
    wide = scale.dtype if scale.dtype.startswith("float") else "float32"
    y = x.cast(wide).op("quotient", over(scale, x.shape, a).cast(wide))
    y = (y.cast(of_scale).cast(wide) if narrow else y).op("round")
    if zero:
        y = y + over(_byte(c, zero), x.shape, a).cast(wide)
    return y.clamped(*(limits or integer_range(to))).cast(to).name


def _quantize_float8(c: OnnxContext, node: NodeProto, a: dict[str, Any], to: str) -> str:
    """``x / scale`` rounded to a number of a type; it is computed in float32, and stays there."""
    if not a.get("saturate", 1):
        raise Unsupported(f"numbers quantised to {to} with saturate = 0 are not supported")
    check_no_zero(c, optional(node, 2))
    x, scale = (computed(value(c, i)) for i in node.input[:2])
    quotient = x.cast("float32").op("quotient", over(scale, x.shape, a).cast("float32"))
    return rounded(quotient, FLOAT8[to]).name


def _quantized(
    c: OnnxContext,
    a: dict[str, Any],
    kind: np.dtype[Any],
    between: np.dtype[Any],
    x: NDArray[Any],
    scale: NDArray[Any],
    zero: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Constants as numbers of a type; their quotients are rounded to the type ``between``."""
    room(c, x.size)
    own, axis, times = spread(scale.shape, x.shape, a)
    with np.errstate(invalid="ignore", over="ignore"):
        quotient = x.astype(np.float32) / repeated(scale, x.shape, own, axis, times)
        y = np.rint(quotient.astype(between).astype(np.float32))
    if zero is not None:
        y = y + repeated(zero, x.shape, own, axis, times)
    low, high = _NIBBLES.get(kind.name) or integer_range(kind.name)
    least = np.nan_to_num(y, nan=low, posinf=high, neginf=low)
    return np.asarray(least.clip(low, high).astype(np.int32).astype(kind))


def _dequantize(c: OnnxContext, node: NodeProto) -> str | NDArray[Any]:
    """``(x - zero point) * scale``; of constants known at import, of any type."""
    a = attributes(node)
    names = [n for n in node.input if n]
    of_blocks = bool(a.get("block_size", 0)) or c.dtype(node.input[0]) in _NIBBLES
    parts = node.input[1], optional(node, 2), node.input[0]
    weights = of_blocks or (node.input[0] in c.constants and c.rank(node.input[0]) > 0)
    check_parameters(c, *parts, positive=not weights, infinite=not of_blocks)
    if all(n in c.constants for n in names) and not _kept(c, node, a):
        known = [c.constants[n] for n in names]
        packed = None if infinite(c, node.input[1]) else _packed(c, a, *known)
        return _dequantized(c, a, *known) if packed is None else packed.name
    x, scale = _byte(c, node.input[0]), value(c, node.input[1])
    if x.dtype == "float32" and c.dtype(optional(node, 2) or node.input[0]) in FLOAT8:
        check_no_zero(c, optional(node, 2))
        return (x * over(computed(scale), x.shape, a).cast("float32")).cast(scale.dtype).name
    to = element_type(a["output_dtype"]) if a.get("output_dtype", 0) else scale.dtype
    if x.dtype not in (*_QUANTISED, "int32"):
        raise Unsupported(f"quantised numbers of {x.dtype} are not supported")
    by_channel = plain(scale, x.shape, a) and not infinite(c, node.input[1])
    if scale.dtype == to == "float32" and by_channel:
        zero = optional(node, 2)
        point = _byte(c, zero) if zero else constant(c, np.zeros((), numpy_dtype(x.dtype)))
        return x.op("dequantize", over(scale, x.shape, a), over(point, x.shape, a)).name
    wide = x.cast("int32")
    if optional(node, 2):
        wide = wide - over(_byte(c, node.input[2]), x.shape, a).cast("int32")
    factor = computed(scale)
    return (wide.cast(factor.dtype) * over(factor, x.shape, a)).cast(to).name


def _dynamic(c: OnnxContext, node: NodeProto) -> Result:
    return [v.name for v in quantised_dynamically(value(c, node.input[0]))]


def quantised_dynamically(x: Value) -> tuple[Value, Value, Value]:
    """Data as uint8, their scale and zero point: 0 and what is least and largest fit just so.

    As the standard says, and with its quotients; of zeros alone ONNX Runtime's scale is 1, and
    there are no quotients of zeros.
    """
    axes = {"axes": tuple(range(len(x.shape))), "keepdims": False}
    least, most = (x.op(op, **axes) if x.shape else x for op in ("reduce_min", "reduce_max"))
    low, high = least.op("at_most", 0.0), most.op("at_least", 0.0)
    step = (high - low).op("quotient", 255.0)
    scale = step.where(step > 0.0, 1.0)
    zero = (0.0 - low).op("quotient", scale).op("round").clamped(0.0, 255.0).cast("uint8")
    return x.op("quantize", scale, zero), scale, zero


def _kept(c: OnnxContext, node: NodeProto, a: dict[str, Any]) -> bool:
    """Whether constants stay quantised: weights and biases that products may be computed with."""
    x, scale = (c.constants[n] for n in node.input[:2])
    of_products = x.dtype.name in ("int8", "uint8", "int32") and x.ndim > 0
    of_products = of_products or (x.dtype.name in _NIBBLES and x.ndim > 2)
    of_products = of_products and not infinite(c, node.input[1])
    return of_products and scale.dtype == np.float32 and spread(scale.shape, x.shape, a)[2] == 1


def _byte(c: OnnxContext, name: str) -> Value:
    """Quantised numbers; constants of fewer bits, such as filters, as bytes."""
    array = c.constants.get(name)
    if array is None or array.dtype.name not in _NIBBLES:
        return value(c, name)
    return constant(c, array.astype(np.int8 if array.dtype.name.startswith("i") else np.uint8))


def _packed(
    c: OnnxContext,
    a: dict[str, Any],
    x: NDArray[Any],
    scale: NDArray[Any],
    zero: NDArray[Any] | None = None,
) -> Value | None:
    """A matrix that stays packed, if it is one of few bits."""
    to = element_type(a["output_dtype"]) if a.get("output_dtype", 0) else scale.dtype.name
    if x.ndim != 2 or to != scale.dtype.name:
        return None
    own, axis, times = spread(scale.shape, x.shape, a)
    shape = known_shape(own)
    parts = scale.reshape(shape), None if zero is None else zero.reshape(shape)
    block = int(a.get("block_size", 0)) if times > 1 else 0
    return packed_matrix(c, x, *parts, axis, block)


def _dequantized(
    c: OnnxContext,
    a: dict[str, Any],
    x: NDArray[Any],
    scale: NDArray[Any],
    zero: NDArray[Any] | None = None,
) -> NDArray[Any]:
    to = element_type(a["output_dtype"]) if a.get("output_dtype", 0) else scale.dtype.name
    own, axis, times = spread(scale.shape, x.shape, a)
    room(c, x.size)

    y = x.astype(np.float32)  # exact: of all but int32, which has no zero point
    if zero is not None:
        y = y - repeated(zero, x.shape, own, axis, times)
    with np.errstate(over="ignore", invalid="ignore"):  # masks hold the lowest number, or infinity
        return np.asarray(y * repeated(scale, x.shape, own, axis, times), numpy_dtype(to))


def _conv_integer(c: OnnxContext, node: NodeProto) -> str:
    for i in range(2):
        _check_type(c, node.input[i], optional(node, i + 2))
    of_bytes = conv_of_bytes(c, node)
    if of_bytes is not None:
        return of_bytes
    x = _shifted(c, node.input[0], optional(node, 2), column=False)
    w = _shifted_channels(c, node.input[1], optional(node, 3))
    return convolution(c, attributes(node), x, w.name, "", node.output[0])


def _shifted_channels(c: OnnxContext, name: str, zero: str) -> Value:
    """Weights as int32, their zero points (one, or one a channel) subtracted."""
    _check_type(c, name, zero)
    w = value(c, name).cast("int32")
    return w - _of_channels(value(c, zero), len(w.shape), 0).cast("int32") if zero else w


def _of_channels(x: Value, rank: int, dim: int) -> Value:
    """One number, or a vector along a dimension of ``rank``."""
    return x.reshape(*(-1 if d == dim else 1 for d in range(rank)))


def _quantized_conv(c: OnnxContext, node: NodeProto) -> str:
    """``(x - zx) * (w - zw) sx sw / sy + zy``, rounded to the nearest, limited to the type."""
    i = node.input
    for at, zero, numbers in ((1, 2, i[0]), (4, 5, i[3]), (6, 7, None)):
        check_parameters(c, i[at], i[zero], numbers)
    known = i[3] in c.constants and (not optional(node, 8) or i[8] in c.constants)
    if known and constant_parameters(c, [*i[1:3], *i[4:8]]) and _bytes(c, i[7]):
        return quantised_conv(c, node)
    x = _shifted(c, node.input[0], node.input[2], column=False)
    w = _shifted_channels(c, node.input[3], node.input[5])
    y = Value(c, convolution(c, attributes(node), x, w.name, "", f"{node.output[0]}_sum"))
    rank = len(y.shape)
    if optional(node, 8):
        y = y + _of_channels(value(c, node.input[8]), rank, 1)
    scales = [value(c, node.input[i]).cast("float32") for i in (1, 4, 6)]
    of_x, of_w, of_y = (_of_channels(s, rank, 1) for s in scales)
    scale = (of_x * of_w).op("quotient", of_y)
    return _requantised(y, scale, _of_channels(value(c, node.input[7]), rank, 1))


CONVERTERS: dict[str, Converter] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _quantized_conv,
    "QLinearMatMul": _quantized_matmul,
    "QuantizeLinear": _quantize,
}
