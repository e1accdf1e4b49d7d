"""PyTorch's operators on quantised numbers, as quantised exports (pt2e) have them.

They become ``quantize`` and ``dequantize`` of the network, of which
`tilework.graph.passes.integer_products` makes products of bytes, as of ONNX's operators. What is
PyTorch's own: it multiplies by the reciprocal of a scale, and numbers may have a range that is
narrower than their type's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.dtypes import integer_range, numpy_dtype
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value
from tilework.graph.aten.dtypes import array_of, dtype_name
from tilework.graph.operators.base import BYTES
from tilework.graph.operators.packed import large_bytes
from tilework.graph.operators.quantized import QUANTIZED
from tilework.graph.passes._quantised import FLIP

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

_SPACE = "quantized_decomposed"
_GROUP = 4
"""Products that one instruction sums."""


def kept(node: Node) -> bool:
    """Whether a node of constants stays, since products are computed with its integers."""
    name = str(node.target)
    return name.startswith(
        (f"{_SPACE}.dequantize_per_tensor", f"{_SPACE}.dequantize_per_channel.")
    ) or (name == "aten._to_copy.default" and _of_large_bytes(node))


def _of_large_bytes(node: Node) -> bool:
    """Whether a large matrix of bytes is converted to float32, as for products of its numbers."""
    metas: tuple[Any, ...] = tuple(getattr(n, "meta", {}).get("val") for n in (node.args[0], node))
    given, result = metas
    if not all(hasattr(v, "dtype") for v in metas):
        return False
    of_bytes = dtype_name(given.dtype) in BYTES and dtype_name(result.dtype) == "float32"
    return of_bytes and large_bytes(tuple(given.shape))


def whole_numbers(c: AtenContext, x: Value) -> Value | None:
    """A large constant matrix of bytes as float32 that may stay bytes; None of anything else."""
    if c.known(x) is None or c.dtype(x) not in BYTES or not large_bytes(c.shape(x)):
        return None
    zero = c.constant(np.zeros((), numpy_dtype(c.dtype(x))), "zero")
    return c.op("dequantize", x, c.number(1.0, "float32"), zero)


def _product_of_bytes(c: AtenContext, a: Any, b: Any) -> Value:
    """The product of two matrices of int8, in int32."""
    x, y = c.value(a), c.value(b)
    w = c.known(y)
    if w is None:
        x, y = (c.cast(v, "int32") for v in (x, y))
        return c.op("matmul", x, y, transpose_a=False, transpose_b=False)
    short = -w.shape[0] % _GROUP
    data = c.op("flip_sign", x)
    if short:
        data = c.op("pad", data, before=(0, 0), after=(0, short), value=0)
    wide = np.ascontiguousarray(np.pad(w.T, ((0, 0), (0, short))))
    of_flip = (FLIP * w.astype(np.int64).sum(0)).astype(np.int32)
    sums = c.op("dense", data, c.constant(wide, "weight"), sums="int32")
    return c.op("subtract", sums, c.constant(of_flip, "of_zero"))


def _quantize(
    c: AtenContext,
    x: Any,
    parts: tuple[Any, Any],
    axis: int | None,
    low: Any,
    high: Any,
    dtype: torch.dtype,
) -> Value:
    """``clamp(round(x * (1 / scale)) + zero, low, high)``."""
    kind = _kind(dtype, QUANTIZED)
    v = c.value(x, "float32")
    scale, zero = _scale(c, parts[0], v, axis, exact=axis is not None), None
    factor = None if isinstance(scale, Value) else _odd_factor(parts[0], scale)
    if factor is not None:  # the reciprocal of a scale that float32 does not hold
        v, scale = c.op("multiply", v, c.constant(factor, "factor")), np.ones((), np.float32)
    zero = _zero(c, parts[1], v, axis, kind)
    y = c.op("quantize", v, _held(c, scale, "scale"), zero, reciprocal=True)
    low, high = int(_number(low)), int(_number(high))
    if low > high:
        raise Unsupported(f"a range from {low} to {high}")
    least, most = integer_range(kind)
    if low <= least and high >= most:
        return y
    return c.op("clip", y, low=max(low, least), high=min(high, most))


def _dequantize(
    c: AtenContext,
    x: Any,
    parts: tuple[Any, Any],
    axis: int | None,
    *ends: Any,
    out_dtype: Any = None,
) -> Value:
    """``(x - zero) * scale``; the ends of its range and its type are those of ``x``."""
    v = c.value(x)
    kind = c.dtype(v)
    if kind not in (*QUANTIZED, "int32"):
        raise Unsupported(f"quantised numbers of {kind}")
    scale = _held(c, _scale(c, parts[0], v, axis, exact=axis is not None), "scale")
    y = c.op("dequantize", v, scale, _zero(c, parts[1], v, axis, kind))
    return c.cast(y, "float32" if out_dtype is None else _kind(out_dtype, None))


def _of(convert: Callable[..., Value], *axis: None) -> Converter:
    """A converter of the operator by channel; with an ``axis``, of that for whole tensors."""

    def converter(c: AtenContext, x: Any, *given: Any, **named: Any) -> Value:
        return convert(c, x, given[:2], *axis, *given[2:], **named)

    return converter


def _kind(dtype: torch.dtype, some: tuple[str, ...] | None) -> str:
    kind = dtype_name(dtype)
    if kind is None or (some is not None and kind not in some):
        raise Unsupported(f"numbers quantised to {dtype}")
    return kind


def _number(x: Any) -> float:
    """A number that is known, alone or as a tensor of one element."""
    if isinstance(x, (bool, int, float)):
        return x
    if hasattr(x, "stride") and x.numel() == 1:
        return float(x.item())
    raise Unsupported("a limit of quantised numbers is computed")


def _scale(c: AtenContext, x: Any, v: Value, axis: int | None, exact: bool) -> Any:
    """A scale in float32: an array if it is known, a value if it is computed.

    Raises:
        Unsupported: it is no positive number, or does not fit ``v``, or float32 does not hold it
            where it has to (``exact``).
    """
    if isinstance(x, Value):
        return c.cast(c.reshape(x, _beside(c, v, axis, c.shape(x))), "float32")
    wide = np.asarray(array_of(x) if hasattr(x, "stride") else x, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        scale = wide.astype(np.float32)
    odd = scale[~(np.isfinite(scale) & (scale > 0))]
    if odd.size:
        raise Unsupported(f"a scale is {odd[0]}; scales are positive numbers")
    if exact and (scale != wide).any():
        raise Unsupported("scales by channel that float32 does not hold")
    return scale.reshape(_beside(c, v, axis, scale.shape))


def _odd_factor(given: Any, scale: np.ndarray) -> np.ndarray | None:
    """The reciprocal of a scale, if that of the scale in float32 is another number."""
    if scale.size != 1 or np.float64(_number(given)) == np.float64(scale.reshape(())):
        return None
    factor = np.float32(1.0 / _number(given))
    return None if factor == np.float32(1) / scale.reshape(()) else np.asarray(factor)


def _zero(c: AtenContext, x: Any, v: Value, axis: int | None, kind: str) -> Value:
    """Zero points in the type of the numbers; none: zero."""
    if isinstance(x, Value):
        return c.cast(c.reshape(x, _beside(c, v, axis, c.shape(x))), kind)
    if x is None:
        return c.constant(np.zeros((), numpy_dtype(kind)), "zero")
    wide = np.asarray(array_of(x) if hasattr(x, "stride") else x)
    low, high = integer_range(kind)
    if ((wide < low) | (wide > high) | (wide != np.rint(wide))).any():
        raise Unsupported(f"a zero point that {kind} does not hold")
    zero = wide.astype(numpy_dtype(kind))
    return c.constant(zero.reshape(_beside(c, v, axis, zero.shape)), "zero")


def _held(c: AtenContext, x: Any, name: str) -> Value:
    return x if isinstance(x, Value) else c.constant(x, name)


def _beside(c: AtenContext, v: Value, axis: int | None, shape: Any) -> tuple[int, ...]:
    """The shape in which parameters broadcast to ``v``: one of all, or a vector along ``axis``."""
    if axis is None:
        if int(np.prod(shape)) != 1:
            raise Unsupported(f"scales of shape {list(shape)} for a whole tensor")
        return ()
    at = c.axis(axis, c.rank(v))
    if tuple(shape) != (c.shape(v)[at],):
        raise Unsupported(f"scales of shape {list(shape)} along dimension {at}")
    return tuple(-1 if d == at else 1 for d in range(c.rank(v)))


def _choose(
    c: AtenContext, x: Any, low: int, high: int, eps: float, dtype: Any
) -> tuple[Value, Value]:
    """The scale with which 0 and the extremes of ``x`` fit just so, and its zero point."""
    least, most = _extremes(c, x)
    span = c.number(float(high - low), "float32")
    scale = c.op("quotient", c.op("subtract", most, least), span)
    scale = c.op("maximum", scale, c.number(eps, "float32"))
    before = c.op("round", c.op("quotient", least, scale))
    zero = c.op("subtract", c.number(float(low), "float32"), before)
    return _as_told(c, scale, c.op("clip", zero, low=float(low), high=float(high)))


def _choose_symmetric(
    c: AtenContext, x: Any, low: int, high: int, eps: float, dtype: Any
) -> tuple[Value, Value]:
    """The same for a range that is as far below its middle as above."""
    least, most = _extremes(c, x)
    peak = c.op("maximum", c.op("negative", least), most)
    scale = c.op("quotient", peak, c.number(float(high - low) / 2, "float32"))
    scale = c.op("maximum", scale, c.number(eps, "float32"))
    zero = c.number(128.0 if dtype_name(dtype) == "uint8" else 0.0, "float32")
    return _as_told(c, scale, zero)


def _extremes(c: AtenContext, x: Any) -> tuple[Value, Value]:
    v = c.value(x, "float32")
    axes = {"axes": tuple(range(c.rank(v))), "keepdims": False}
    least, most = (c.op(op, v, **axes) if c.rank(v) else v for op in ("reduce_min", "reduce_max"))
    none = c.number(0.0, "float32")
    return c.op("minimum", least, none), c.op("maximum", most, none)


def _as_told(c: AtenContext, scale: Value, zero: Value) -> tuple[Value, Value]:
    """Both in the types and shapes that PyTorch says."""
    parts = (c.cast(scale, "float64"), c.cast(zero, "int64"))
    return (c.reshape(parts[0], (1,)), c.reshape(parts[1], (1,)))


def _convert_type(c: AtenContext, x: Any, dtype: Any) -> Value:
    return c.cast(c.value(x), _kind(dtype, None))


_OPERATORS: dict[str, Converter] = {
    "choose_qparams": _choose,
    "choose_qparams_symmetric": _choose_symmetric,
    "convert_element_type": _convert_type,
    "dequantize_per_channel": _of(_dequantize),
    "dequantize_per_tensor": _of(_dequantize, None),
    "quantize_per_channel": _of(_quantize),
    "quantize_per_tensor": _of(_quantize, None),
}
CONVERTERS = {
    **{f"{_SPACE}.{name}": convert for name, convert in _OPERATORS.items()},
    "_int_mm": _product_of_bytes,
}
