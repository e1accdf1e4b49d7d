"""Activation functions."""

from __future__ import annotations

from typing import Any

from tilework.dtypes import is_float
from tilework.graph.aten.context import AtenContext, Converter, Value, plain


def _gelu(c: AtenContext, x: Any, approximate: str = "none") -> Value:
    return c.op("gelu", c.value(x), approximate=approximate)


def _leaky_relu(c: AtenContext, x: Any, slope: float = 0.01) -> Value:
    return c.op("leaky_relu", c.value(x), alpha=float(slope))


def _hardtanh(c: AtenContext, x: Any, low: float = -1.0, high: float = 1.0) -> Value:
    v = c.value(x)
    if is_float(c.dtype(v)):
        return c.op("clip", v, low=float(min(low, high)), high=float(high))
    dtype = c.dtype(v)
    v = c.op("maximum", v, c.number(low, dtype))
    return c.op("minimum", v, c.number(high, dtype))


def _elu(
    c: AtenContext, x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0
) -> Value:
    """``scale * (x if positive else alpha * (exp(x * input_scale) - 1))``."""
    v = c.value(x)
    dtype = c.dtype(v)
    if input_scale == 1:
        y = c.op("elu", v, alpha=float(alpha))
    else:
        zero = c.number(0, dtype)
        below = c.op("multiply", c.op("minimum", v, zero), c.number(input_scale, dtype))
        y = c.op("add", c.op("relu", v), c.op("elu", below, alpha=float(alpha)))
    return y if scale == 1 else c.op("multiply", y, c.number(scale, dtype))


def _softplus(c: AtenContext, x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Value:
    v = c.value(x)
    dtype = c.dtype(v)
    if beta == 1:
        y = c.op("softplus", v)
    else:
        y = c.op("softplus", c.op("multiply", v, c.number(beta, dtype)))
        y = c.op("multiply", y, c.number(1.0 / beta, dtype))
    if threshold * 1.0 >= 20.0:
        return y  # it is x there to the last place
    scaled = v if beta == 1 else c.op("multiply", v, c.number(beta, dtype))
    return c.op("where", c.op("greater", scaled, c.number(threshold, dtype)), v, y)


CONVERTERS: dict[str, Converter] = {
    "relu": plain("relu"),
    "gelu": _gelu,
    "silu": plain("silu"),
    "mish": plain("mish"),
    "hardswish": plain("hard_swish"),
    "hardsigmoid": plain("hard_sigmoid", alpha=1.0 / 6.0, beta=0.5),
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "softplus": _softplus,
    "_prelu_kernel": plain("prelu"),
}
