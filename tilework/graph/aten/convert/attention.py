"""Attention: products of queries and keys, their softmax, its products with the values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.dtypes import is_float
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value, first_of
from tilework.graph.aten.convert.matrices import linear
from tilework.index.extents import known

if TYPE_CHECKING:
    from tilework.index.extents import Extent


def _attention(
    c: AtenContext,
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Value:
    """Scaled products of queries and keys, their softmax, its products with the values."""
    if dropout_p:
        raise Unsupported("with dropout")
    q, k, v = c.value(query), c.value(key), c.value(value)
    dtype = c.dtype(q)
    if not is_float(dtype) or {c.dtype(k), c.dtype(v)} != {dtype}:
        raise Unsupported("operands of different types")
    (b, h, s, d), (_, shared, t, _) = c.shape(q), c.shape(k)
    h, shared, d = known(h), known(shared), known(d)
    if c.shape(k)[0] != b or c.shape(v)[:3] != (b, shared, t) or not shared or h % shared:
        raise Unsupported(f"queries {c.shape(q)}, keys {c.shape(k)} and values {c.shape(v)}")
    # queries of heads that share one of keys count as further queries of that head
    q = c.reshape(q, (b, shared, h // shared * s, d))
    scores = c.reshape(c.op("einsum", q, k, equation="bhsd,bhtd->bhst"), (b, h, s, t))
    factor = 1.0 / math.sqrt(d) if scale is None else float(scale)
    scores = c.op("multiply", scores, c.number(factor, dtype))
    if is_causal:
        scores = _causal(c, scores, s, t)
    seen = None
    if attn_mask is not None:
        m = c.value(attn_mask)
        seen = _sees(c, m)
        if c.dtype(m) == "bool":
            scores = c.op("where", m, scores, c.number(-math.inf, dtype))
        else:
            scores = c.op("add", scores, c.cast(m, dtype))
        scores = c.op("where", seen, scores, c.number(0.0, dtype))
    shares = c.reshape(c.op("softmax", scores, axis=3), (b, shared, h // shared * s, t))
    mixed = c.op("einsum", shares, v, equation="bhst,bhtd->bhsd")
    mixed = c.reshape(mixed, (b, h, s, c.shape(v)[3]))
    return mixed if seen is None else c.op("where", seen, mixed, c.number(0.0, dtype))


def _causal(c: AtenContext, scores: Value, s: Extent, t: Extent) -> Value:
    """Scores of later positions are minus infinity."""
    dtype = c.dtype(scores)
    if isinstance(s, int) and isinstance(t, int):
        later = np.triu(np.full((s, t), -np.inf, np.float32), 1)
        return c.op("add", scores, c.cast(c.constant(later, "mask"), dtype))
    attrs = {"shape": (s, t), "start": 0, "step": 1, "dtype": "int32"}
    rows, columns = (c.op("arange", axis=axis, **attrs) for axis in (0, 1))
    return c.op("where", c.op("less", rows, columns), c.number(-math.inf, dtype), scores)


def _sees(c: AtenContext, mask: Value) -> Value:
    """Whether a position sees any other, by a mask; PyTorch gives zeros to one that sees none.

    The softmax of such a row is NaN, which later layers carry to all positions: 0 times NaN.
    """
    most = c.op("reduce_max", mask, axes=(c.rank(mask) - 1,), keepdims=True)
    if c.dtype(mask) == "bool":
        return most
    return c.op("greater", most, c.number(-math.inf, c.dtype(mask)))


def _heads(c: AtenContext, x: Value, heads: int) -> Value:
    """[batch, position, head * element] as [batch, head, position, element]."""
    b, s, _ = c.shape(x)
    return c.transpose(c.reshape(x, (b, s, heads, -1)), (0, 2, 1, 3))


def _self_attention(
    c: AtenContext,
    x: Value,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    mask: Any,
    mask_type: int | None,
) -> Value:
    b, s, width = c.shape(x)
    width = known(width)
    weights = [
        linear(
            c, x, qkv_weight[i * width : (i + 1) * width], qkv_bias[i * width : (i + 1) * width]
        )
        for i in range(3)
    ]
    q, k, v = (_heads(c, y, heads) for y in weights)
    scores = c.op("einsum", q, k, equation="bhsd,bhtd->bhst")
    dtype = c.dtype(x)
    scores = c.op("multiply", scores, c.number(1.0 / math.sqrt(width // heads), dtype))
    if mask is not None:
        if mask_type not in (0, 1):
            raise Unsupported(f"a mask of kind {mask_type}")
        left_out = c.value(mask, "bool")
        if mask_type == 1:  # of keys
            left_out = c.reshape(left_out, (b, 1, 1, s))
        scores = c.op("where", left_out, c.number(-math.inf, dtype), scores)
    mixed = c.op("einsum", c.op("softmax", scores, axis=3), v, equation="bhst,bhtd->bhsd")
    return linear(c, c.reshape(c.transpose(mixed, (0, 2, 1, 3)), (b, s, width)), weight, bias)


def _normal(c: AtenContext, x: Value, weight: Any, bias: Any, epsilon: float) -> Value:
    y = c.op("normalize", x, axes=(c.rank(x) - 1,), epsilon=float(epsilon), center=True)
    return c.op("add", c.op("multiply", y, c.value(weight)), c.value(bias))


def _encoder_layer(
    c: AtenContext,
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    use_gelu: bool,
    norm_first: bool,
    epsilon: float,
    gain1: Any,
    shift1: Any,
    gain2: Any,
    shift2: Any,
    weight1: Any,
    bias1: Any,
    weight2: Any,
    bias2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Value:
    """What `torch.nn.TransformerEncoderLayer` runs in evaluation, as one operator."""
    v = c.value(x)
    if isinstance(qkv_weight, Value) or c.rank(v) != 3 or c.dtype(v) not in ("float32", "float64"):
        raise Unsupported("its weights are computed, or its input is no batch of float32")

    def attended(y: Value) -> Value:
        return _self_attention(c, y, heads, qkv_weight, qkv_bias, weight, bias, mask, mask_type)

    def widened(y: Value) -> Value:
        y = linear(c, y, weight1, bias1)
        y = c.op("gelu", y, approximate="none") if use_gelu else c.op("relu", y)
        return linear(c, y, weight2, bias2)

    if norm_first:
        v = c.op("add", v, attended(_normal(c, v, gain1, shift1, epsilon)))
        return c.op("add", v, widened(_normal(c, v, gain2, shift2, epsilon)))
    v = _normal(c, c.op("add", v, attended(v)), gain1, shift1, epsilon)
    return _normal(c, c.op("add", v, widened(v)), gain2, shift2, epsilon)


def _multi_head(
    c: AtenContext,
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Value:
    if not query == key == value or isinstance(qkv_weight, Value):
        raise Unsupported("of several tensors, or with weights that are computed")
    x = c.value(query)
    return _self_attention(c, x, heads, qkv_weight, qkv_bias, weight, bias, mask, mask_type)


_SECOND = "its second result is not offered"

CONVERTERS: dict[str, Converter] = {
    "_scaled_dot_product_flash_attention_for_cpu": first_of(2, _attention, _SECOND),
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "_native_multi_head_attention": first_of(2, _multi_head, _SECOND),
}
