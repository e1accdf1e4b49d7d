"""Operators that treat all elements alike: arithmetic, comparisons, logic, selection, casts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tilework.dtypes import dtype_bytes, is_float, numpy_dtype
from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.protos import NodeProto, messages, numpy_type
from tilework.graph.operators.base import ANY, BYTES
from tilework.graph.operators.packed import large_bytes


def _plain(op: str) -> Converter:
    """An operator of as many operands as ours has."""
    return lambda c, node: c.op(op, *map(c.value, node.input), name=node.output[0])


def _binary(op: str, c: OnnxContext, node: NodeProto) -> str:
    """An operator of one or more operands (``Sum``, ``Max``, ``Min`` take any number)."""
    if len(node.input) == 1:
        return c.op("identity", c.value(node.input[0]), name=node.output[0])
    y = c.value(node.input[0])
    for other in node.input[1:]:
        y = c.op(op, y, c.value(other), name=node.output[0])
    return y


def _mean(c: OnnxContext, node: NodeProto) -> str:
    total = _binary("add", c, node)
    return c.op("divide", total, like(c, len(node.input), total), name=node.output[0])


def _clip(c: OnnxContext, node: NodeProto) -> str:
    """First the lower limit, then the upper one, which wins where they cross."""
    a = attributes(node)
    x = c.value(node.input[0])
    dtype = c.b.types[x].dtype
    names = [optional(node, i) for i in (1, 2)]
    if any(name and name not in c.constants for name in names):
        for name, op in zip(names, ("at_least", "at_most"), strict=True):
            x = c.op(op, x, c.value(name), name=node.output[0]) if name else x
        return x
    ends: dict[str, float] = {"low": a.get("min", -np.inf), "high": a.get("max", np.inf)}
    for name, end in zip(names, ends, strict=True):
        if name:
            ends[end] = c.constants[name].item()
    if ends["low"] > ends["high"]:
        ends["low"] = ends["high"]
    if np.issubdtype(np.dtype(dtype), np.floating):
        # older exporters write the largest finite number for "no limit"
        largest = float(np.finfo(dtype).max)
        low = -np.inf if ends["low"] <= -largest else float(ends["low"])
        high = np.inf if ends["high"] >= largest else float(ends["high"])
        if (low, high) == (-np.inf, np.inf):
            return c.op("identity", x, name=node.output[0])
        return c.op("clip", x, name=node.output[0], low=low, high=high)
    if not np.isinf(ends["low"]):
        x = c.op("maximum", x, like(c, ends["low"], x), name=node.output[0])
    if not np.isinf(ends["high"]):
        x = c.op("minimum", x, like(c, ends["high"], x), name=node.output[0])
    return c.op("identity", x, name=node.output[0])


def _power(c: OnnxContext, node: NodeProto) -> str:
    """Powers; a square and a root need no logarithm. Squares and cubes of integers wrap around."""
    base, exponent = node.input
    x, name = c.value(base), node.output[0]
    floating = c.b.types[x].dtype.startswith("float")
    known = c.constants.get(exponent)
    if known is not None and known.size == 1 and known.ndim <= c.rank(base):
        value = float(known.item())
        if value == 2.0:
            return c.op("multiply", x, x, name=name)
        if value == 3.0 and not floating:
            return c.op("multiply", c.op("multiply", x, x), x, name=name)
        if value == 0.5 and floating:
            return c.op("sqrt", x, name=name)
    return c.op("power", x, c.value(exponent), name=name)


def _modulo(c: OnnxContext, node: NodeProto) -> Result:
    op = "truncated_mod" if attributes(node).get("fmod", 0) else "floor_mod"
    return _binary(op, c, node)


def _shift(c: OnnxContext, node: NodeProto) -> Result:
    direction = attributes(node)["direction"]
    if direction not in ("LEFT", "RIGHT"):
        raise Unsupported(f"unknown direction '{direction}'")
    return _binary(f"shift_{direction.lower()}", c, node)


def _isinf(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    signs = {k: bool(a.get(f"detect_{k}", 1)) for k in ("positive", "negative")}
    return c.op("isinf", c.value(node.input[0]), name=node.output[0], **signs)


def of_large_bytes(node: NodeProto, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether a large constant matrix of bytes is converted to float32, perhaps for a product.

    It stays bytes then, as far as products read it (`multiply_packed`).
    """
    x = constants.get(node.input[0]) if node.op_type == "Cast" else None
    if x is None or x.dtype.name not in BYTES or not large_bytes(x.shape):
        return False
    return bool(attributes(node)["to"] == messages().TensorProto.FLOAT)


def _cast(c: OnnxContext, node: NodeProto) -> str:
    to, x = element_type(attributes(node)["to"]), c.value(node.input[0])
    if not of_large_bytes(node, c.constants):
        return c.op("cast", x, name=node.output[0], to=to)
    parts = {"scale": np.ones((), np.float32), "zero": np.zeros((), c.b.types[x].dtype)}
    given = [c.b.constant(a, name) for name, a in parts.items()]
    return c.op("dequantize", x, *given, name=node.output[0])


def _cast_like(c: OnnxContext, node: NodeProto) -> str | np.ndarray:
    x, other = node.input
    if other in c.constants:
        to = c.constants[other].dtype.name
    else:
        to = c.b.types[c.value(other)].dtype
    if to not in ANY:
        raise Unsupported(f"element type {to} is not supported")
    if x in c.constants and c.constants[x].dtype.name in ANY:
        return c.constants[x].astype(numpy_dtype(to))
    return c.op("cast", c.value(node.input[0]), name=node.output[0], to=to)


def _bit_cast(c: OnnxContext, node: NodeProto) -> str | np.ndarray:
    """The same bits as another type: of data, integers alone."""
    (name,) = node.input
    to = element_type(attributes(node)["to"])
    if name in c.constants:
        array = c.constants[name]
        if array.dtype.itemsize != dtype_bytes(to):
            raise Unsupported(f"{array.dtype} and {to} are not of one width")
        return np.asarray(array, order="C").view(numpy_dtype(to))
    own = c.b.types[c.value(name)].dtype
    if dtype_bytes(own) != dtype_bytes(to):
        raise Unsupported(f"{own} and {to} are not of one width")
    if own != to and (is_float(own) or is_float(to)):
        raise Unsupported(f"the bits of {own} as {to}; they are known of constants alone")
    return c.op("cast", c.value(name), name=node.output[0], to=to)


def element_type(number: int) -> str:
    """NumPy's name of an ONNX element type.

    Raises:
        Unsupported: arrays of that type cannot be computed with.
    """
    try:
        name = numpy_type(number).name
    except KeyError:
        raise Unsupported(f"there is no element type {number}") from None
    from tilework.graph.operators.base import ANY

    tensor = messages().TensorProto
    if name not in ANY or number == tensor.STRING:
        raise Unsupported(f"element type {tensor.DataType.Name(number)} is not supported")
    return name


_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
)  # fmt: skip
_BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Div": "divide", "Equal": "equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal",
    "Max": "maximum", "Min": "minimum", "Mul": "multiply", "Or": "logical_or", "Sub": "subtract",
    "Sum": "add", "Xor": "logical_xor",
}  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    **{theirs: _plain(theirs.lower()) for theirs in _UNARY},
    **{theirs: partial(_binary, ours) for theirs, ours in _BINARY.items()},
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "BitwiseNot": _plain("bitwise_not"),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "IsInf": _isinf,
    "IsNaN": _plain("isnan"),
    "Mean": _mean,
    "Mod": _modulo,
    "Not": _plain("logical_not"),
    "PRelu": _plain("prelu"),
    "Pow": _power,
    "Where": _plain("where"),
}
