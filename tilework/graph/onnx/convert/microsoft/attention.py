"""Attention of as many heads of keys as of queries.

Letters of shapes: B sequences, S queries of each, P keys of the past, L new ones, T = P + L,
N heads of H elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.matrices import product
from tilework.graph.onnx.convert.microsoft.masks import later, padding
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.convert.quantised_products import product_of_bytes
from tilework.graph.onnx.convert.slices import along
from tilework.graph.onnx.protos import NodeProto, messages
from tilework.graph.onnx.values import Value, value
from tilework.index.extents import Extent, known


def refuse(node: NodeProto, inputs: dict[int, str], instead: str) -> None:
    """Complain of inputs that are not taken.

    Args:
        inputs: their places and names.
        instead: what to do.

    Raises:
        Unsupported: the node has one of them.
    """
    for i, name in inputs.items():
        if optional(node, i):
            raise Unsupported(f"its input {name} is not supported; {instead}")


def pair(node: NodeProto, first: int, names: str) -> None:
    """Complain of an input that is there without the next one, or the other way round.

    Raises:
        Unsupported: only one of the two is there.
    """
    if bool(optional(node, first)) != bool(optional(node, first + 1)):
        raise Unsupported(f"of its inputs {names} one is left out; give both or none")


def _attention(c: OnnxContext, node: NodeProto) -> Result:
    """Attention with the projections of queries, keys and values in front of it."""
    y = product(c, c.value(node.input[0]), c.value(node.input[1]), f"{node.output[0]}_projected")
    return _of_projected(c, node, y, mask=3, past=4, bias=5)


def _quantised_attention(c: OnnxContext, node: NodeProto) -> Result:
    """The same, the projections a product of bytes by constant weights."""
    inputs = [optional(node, i) for i in range(9)]
    x, w, _, scale, by, _, zero, point, _ = inputs
    name = f"{node.output[0]}_projected"
    proto = messages().NodeProto(input=[x, w, zero, point], output=[f"{name}_sums"])
    sums = product_of_bytes(c, proto)
    if sums is None:
        raise Unsupported("its weights must be constant bytes, and its data of one zero point")
    y = Value(c, sums).cast("float32") * (value(c, scale) * value(c, by))
    return _of_projected(c, node, y.name, mask=5, past=8, bias=None)


def _of_projected(
    c: OnnxContext, node: NodeProto, y: str, mask: int, past: int, bias: int | None
) -> Result:
    """Attention of what is projected, [B, S, all columns], the bias of which is input 2.

    Args:
        mask, past, bias: places of inputs, the last of what is added to the scores.
    """
    a = attributes(node)
    if a.get("do_rotary", 0):  # ONNX Runtime's CPU kernel refuses it as well
        raise Unsupported("do_rotary is not supported; use RotaryEmbedding and MultiHeadAttention")
    if a.get("past_present_share_buffer", 0):
        raise Unsupported(
            "past_present_share_buffer is not supported; optimise the model without it"
        )
    heads, name = int(a["num_heads"]), node.output[0]
    columns = known(c.b.shape(y)[-1])
    widths = list(a.get("qkv_hidden_sizes", ())) or [columns // 3] * 3
    if sum(widths) != columns or len(widths) != 3 or any(n % heads for n in widths):
        raise Unsupported(f"{columns} columns do not make {heads} heads of widths {widths}")
    if optional(node, 2):
        y = c.op("add", y, c.value(node.input[2]), name=f"{name}_biased")
    starts = (0, widths[0], widths[0] + widths[1])
    parts = [along(c, y, 2, at, n, f"{name}_part") for at, n in zip(starts, widths, strict=True)]
    q, k, v = (in_heads(c, part, heads) for part in parts)
    kept = optional(node, past)
    before: Extent = 0
    if kept and 0 not in c.shape(kept):
        before, p = c.shape(kept)[3], c.value(kept)
        k, v = (
            c.op("concat", _half(c, p, i), new, name=f"{name}_present", axis=2)
            for i, new in enumerate((k, v))
        )
    output, _ = _mixed(c, node, a, (q, k, v), before, mask, bias)
    present: str | None = None
    if len(node.output) > 1 and node.output[1]:
        both = (c.op("reshape", y, shape=(1, *c.b.shape(y))) for y in (k, v))
        present = c.op("concat", *both, name=node.output[1], axis=0)
    return [output, present]


def _half(c: OnnxContext, past: str, i: int) -> str:
    """The keys or the values [B, N, P, H] of a past [2, B, N, P, H]."""
    shape = c.b.shape(past)
    return c.op("reshape", along(c, past, 0, i, 1, "past"), shape=shape[1:])


def _multi_head(c: OnnxContext, node: NodeProto) -> Result:
    """Attention of projected queries, keys and values."""
    a = attributes(node)
    refuse(
        node,
        {8: "past_sequence_length", 9: "cache_indirection"},
        "export the model without shared buffers and beam search",
    )
    pair(node, 6, "past_key and past_value")
    heads = int(a["num_heads"])
    q, k, v = _operands(c, node, heads)
    before: Extent = 0
    if optional(node, 6) and 0 not in c.shape(node.input[6]):
        before = c.shape(node.input[6])[2]
        k, v = (
            c.op("concat", c.value(node.input[i]), new, name=node.output[0], axis=2)
            for i, new in ((6, k), (7, v))
        )
    output, scores = _mixed(c, node, a, (q, k, v), before, mask=4, bias=5)
    return [output, k, v, scores]


def _operands(c: OnnxContext, node: NodeProto, heads: int) -> tuple[str, str, str]:
    """Queries, keys and values [B, N, S or L, H], of one, two or three inputs, with their bias."""
    query, key, value, bias = (optional(node, i) for i in range(4))
    if value:
        pair(node, 1, "key and value")
    if not key:  # [B, S, N, 3, H]
        parts = _unpacked(c, query, heads, 3)
    elif not value:  # [B, L, N, 2, H]
        parts = [c.value(query), *_unpacked(c, key, heads, 2)]
    else:
        parts = [c.value(i) for i in (query, key, value)]
    if bias:
        at: Extent = 0
        b = c.value(bias)
        for i, part in enumerate(parts):
            width = c.b.shape(part)[-1]
            own = along(c, b, 0, at, width, f"{node.output[0]}_bias")
            parts[i] = c.op("add", part, own, name=f"{node.output[0]}_biased")
            at += width
    # keys of cross attention may stand in heads already
    q, k, v = (p if len(c.b.shape(p)) == 4 else in_heads(c, p, heads) for p in parts)
    return q, k, v


def _unpacked(c: OnnxContext, name: str, heads: int, count: int) -> list[str]:
    """The parts [B, S, N * H] of [B, S, N, count, H]."""
    x, shape = c.value(name), c.shape(name)
    if len(shape) != 5 or shape[2:4] != (heads, count):
        raise Unsupported(
            f"'{name}' of shape {list(shape)} does not hold {count} operands of {heads} heads; "
            "give queries, keys and values one by one"
        )
    flat = (*shape[:2], heads * shape[4])
    return [c.op("reshape", along(c, x, 3, i, 1, name), shape=flat) for i in range(count)]


def in_heads(c: OnnxContext, x: str, heads: int) -> str:
    """[B, S, N * H] as [B, N, S, H]."""
    b, s, width = c.b.shape(x)
    if width % heads != 0:
        raise Unsupported(f"{width} elements do not make {heads} heads")
    split = c.op("reshape", x, shape=(b, s, heads, width // heads))
    return c.op("transpose", split, perm=(0, 2, 1, 3))


def _mixed(
    c: OnnxContext,
    node: NodeProto,
    a: dict[str, Any],
    operands: Sequence[str],
    past: Extent,
    mask: int,
    bias: int | None,
) -> tuple[str, str]:
    """The mixed values [B, S, N * H], and the scores that they were mixed by, before the softmax.

    Args:
        operands: queries, keys and values in heads, the past among them.
        mask, bias: places of the mask of keys, and of what is added to the scores, if it has one.
    """
    q, k, v = operands
    name, (batch, _, queries, _), keys = node.output[0], c.b.shape(q), c.b.shape(k)[2]
    scores = c.op("einsum", q, k, equation="bhsd,bhtd->bhst", name=f"{name}_scores")
    factor = float(a.get("scale", 0.0)) or 1.0 / math.sqrt(known(c.b.shape(q)[3]))
    scores = c.op("multiply", scores, like(c, factor, scores))
    hidden: str | None = None
    if optional(node, mask):
        filler = float(a.get("mask_filter_value", -10000.0))
        shape = (batch, queries, keys)
        hidden = padding(c, node.input[mask], shape, past, filler, scores)
    causal = bool(a.get("unidirectional", 0)) and queries != 1
    added = [
        *([c.value(node.input[bias])] if bias is not None and optional(node, bias) else []),
        *([hidden] if hidden is not None else []),
        *([later(c, queries, keys, past, c.b.types[scores].dtype)] if causal else []),
    ]
    for more in added:
        scores = c.op("add", scores, more, name=f"{name}_scores")
    shares = c.op("softmax", scores, axis=3, name=f"{name}_shares")
    mixed = c.op("einsum", shares, v, equation="bhst,bhtd->bhsd")
    return out_of_heads(c, mixed, name), scores


def out_of_heads(c: OnnxContext, x: str, name: str) -> str:
    """[B, N, S, H] as [B, S, N * H]."""
    b, n, s, h = c.b.shape(x)
    x = c.op("transpose", x, perm=(0, 2, 1, 3))
    return c.op("reshape", x, name=name, shape=(b, s, n * h))


CONVERTERS: dict[str, Converter] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "QAttention": _quantised_attention,
}
