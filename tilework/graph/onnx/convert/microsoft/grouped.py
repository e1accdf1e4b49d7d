"""Attention of several heads of queries to each head of keys, with a cache of keys and values.

Letters of shapes: B sequences, S new tokens of each, P keys that the cache has room for, T keys in
all, C the larger of P and T, N heads of queries, M heads of keys, H elements of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tilework.frozen import frozen
from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.microsoft.attention import pair, refuse
from tilework.graph.onnx.convert.microsoft.masks import positions, whole
from tilework.graph.onnx.convert.microsoft.rotary import rotated, taken_angles
from tilework.graph.onnx.convert.microsoft.windowed import window_of
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.convert.slices import along
from tilework.graph.onnx.protos import NodeProto
from tilework.index.extents import Extent, known, most
from tilework.index.symbols import Undecided, certain, same

_REFUSED = {
    12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight", 16: "query_seqlens",
}  # fmt: skip


_WINDOW = "local_window_size"


@frozen
class _Lengths:
    """How long the sequences are.

    Attributes:
        new: S.
        total: T, of the longest sequence.
        cached: P.
        ends: value [B, 1] as int32: T of each sequence.
        starts: value [B, 1]: how many of its keys are in the cache; None for the first prompt,
            whose keys all are new.
        short: sequences may end before their new tokens do, as those of a first prompt may.
    """

    new: Extent
    total: Extent
    cached: Extent
    ends: str
    starts: str | None
    short: bool


def _group_query(c: OnnxContext, node: NodeProto) -> Result:
    a, name = attributes(node), node.output[0]
    _check(node, a)
    heads, groups = int(a["num_heads"]), int(a["kv_num_heads"])
    q, k, v = _split(c, node, heads, groups)
    _, new, _, size = c.b.shape(q)
    if optional(node, 3) and not same(c.shape(node.input[3])[3], size):
        raise Unsupported(f"past_key has heads of {c.shape(node.input[3])[3]}, queries of {size}")
    lengths = _lengths(c, node, new)
    if a.get("do_rotary", 0):
        flag = bool(a.get("rotary_interleaved", 0))
        angles = _angles(c, node, lengths, interleaved=flag)
        q, k = (rotated(c, x, angles, interleaved=flag, name=f"{name}_turned") for x in (q, k))
    k, v = (c.op("transpose", x, perm=(0, 2, 1, 3)) for x in (k, v))
    if a.get("sliding_window_cache", 0):
        window = window_of(c, lengths.ends, lengths.starts, lengths.cached, new, int(a[_WINDOW]))
        pasts = [c.value(node.input[i]) for i in (3, 4)]
        present = [window.kept(c, *both) for both in zip(pasts, (k, v), strict=True)]
        keys, values = ((past, x) for past, x in zip(pasts, (k, v), strict=True))
        return [_mixed(c, node, a, q, keys, values, lengths, window.places), *present, None]
    present = [
        _cached(c, x, optional(node, i), lengths, f"{name}_cache") for i, x in ((3, k), (4, v))
    ]
    if lengths.starts is not None:
        k, v = (along(c, x, 2, 0, lengths.total, f"{name}_keys") for x in present)
    return [_mixed(c, node, a, q, (k,), (v,), lengths), *present, None]


def _check(node: NodeProto, a: dict[str, Any]) -> None:
    refuse(node, _REFUSED, "write the model without it")
    pair(node, 1, "key and value")
    pair(node, 3, "past_key and past_value")
    kinds = [a.get(k, "NONE") for k in ("k_quant_type", "v_quant_type")]
    if kinds != ["NONE", "NONE"]:
        raise Unsupported(
            "k_quant_type and v_quant_type are not supported; write the model with a plain cache"
        )
    if a.get("sliding_window_cache", 0):
        if a.get(_WINDOW, -1) <= 0 or not optional(node, 3):
            raise Unsupported("sliding_window_cache needs local_window_size, and past_key")
        refuse(node, {10: "attention_bias"}, "write the model with a plain cache")
    if a.get(_WINDOW, -1) == 0:
        raise Unsupported("local_window_size is 0; it must be positive, or -1 for none")
    if a["num_heads"] % a["kv_num_heads"]:
        raise Unsupported(
            f"kv_num_heads {a['kv_num_heads']} does not divide num_heads {a['num_heads']}"
        )


def _split(c: OnnxContext, node: NodeProto, heads: int, groups: int) -> tuple[str, str, str]:
    """Queries [B, S, N, H], keys and values [B, S, M, H], which may come as one input."""
    query, key, value = (optional(node, i) for i in range(3))
    counts = (heads, groups, groups)
    if key and value:
        parts = [c.value(i) for i in (query, key, value)]
    else:
        x = c.value(query)
        size = c.b.shape(x)[-1] // sum(counts)
        at = (0, heads * size, (heads + groups) * size)
        parts = [
            along(c, x, 2, i, n * size, f"{node.output[0]}_part")
            for i, n in zip(at, counts, strict=True)
        ]
    (b, s, width), size = c.b.shape(parts[0]), c.b.shape(parts[0])[-1] // heads
    for part, n in zip(parts, counts, strict=True):
        if c.b.shape(part) != (b, s, n * size) or width % heads:
            raise Unsupported(
                f"{list(c.b.shape(part))} is no operand of {n} heads where queries are "
                f"{[b, s, width]} in {heads}"
            )
    q, k, v = (
        c.op("reshape", x, shape=(b, s, n, size)) for x, n in zip(parts, counts, strict=True)
    )
    return q, k, v


def _lengths(c: OnnxContext, node: NodeProto, new: Extent) -> _Lengths:
    past = optional(node, 3)
    cached = c.shape(past)[2] if past else 0
    given = c.extents(node.input[6], "total_sequence_length")
    if len(given) != 1:
        raise Unsupported("total_sequence_length is not a single number")
    total = given[0]
    windowed = bool(attributes(node).get("sliding_window_cache", 0))
    if not windowed and not isinstance(cached, int) and not same(total, cached + new):
        raise Unsupported(
            f"total_sequence_length is {total}, which {cached} keys in past_key and {new} new "
            f"tokens do not make; write '{cached} + {new}' for {total}, or give numbers"
        )
    if certain(lambda: total < new) or (cached == 0 and not windowed and total > new):
        raise Unsupported(
            f"total_sequence_length is {total}, but there are {new} new tokens and {cached} in "
            "past_key"
        )
    last = c.op("cast", c.value(node.input[5]), to="int32")
    last = c.op("reshape", last, shape=(math.prod(c.b.shape(last)), 1))
    ends = c.op("add", last, like(c, 1, last))
    first = None if windowed else _is_first(node, total, new)
    starts = None if first else c.op("subtract", ends, whole(c, new))
    if starts is not None and first is None:
        starts = c.op("maximum", starts, whole(c, 0))
    return _Lengths(new, total, cached, ends, starts, short=first is not False)


def _is_first(node: NodeProto, total: Extent, new: Extent) -> bool | None:
    """Whether the new tokens are all there are; None if that differs from run to run.

    Raises:
        Undecided: it differs, and so does what the numbers of positions mean.
    """
    try:
        return not total > new
    except Undecided:
        if optional(node, 9):
            raise
        return None


def _angles(
    c: OnnxContext, node: NodeProto, lengths: _Lengths, *, interleaved: bool
) -> tuple[str, str]:
    """Cosines and sines of the new tokens; without position_ids they follow those in the cache."""
    new = lengths.new
    caches = (optional(node, 7), optional(node, 8))
    if not all(caches):
        raise Unsupported("do_rotary needs cos_cache and sin_cache")
    steps = positions(c, new, 1)
    if optional(node, 9):
        places = c.value(node.input[9])
        if lengths.starts is None:  # ONNX Runtime reads the first number alone
            flat = c.op("reshape", places, shape=(math.prod(c.b.shape(places)),))
            first = c.op("reshape", along(c, flat, 0, 0, 1, "first"), shape=(1, 1))
            places = c.op("add", first, c.op("cast", steps, to=c.b.types[first].dtype))
    else:
        places = steps if lengths.starts is None else c.op("add", lengths.starts, steps)
    shape = (c.b.shape(places)[0], new, 1)
    return taken_angles(c, caches, places, shape, interleaved=interleaved)


def _cached(c: OnnxContext, x: str, past: str, lengths: _Lengths, name: str) -> str:
    """The cache [B, M, C, H] with the new keys or values ``x`` [B, M, S, H] behind the old ones.

    What no sequence has reached yet is 0.
    """
    total, cached = lengths.total, lengths.cached
    rows = cached if certain(lambda: total <= cached) or cached > total else total
    if lengths.starts is None:
        return _lengthened(c, x, rows, name)
    return c.op("append_rows", c.value(past), x, lengths.starts, name=name, rows=rows)


def _lengthened(c: OnnxContext, x: str, rows: Extent, name: str) -> str:
    """``x`` [B, M, L, H] with zeros behind, up to so many rows."""
    more = rows - c.b.shape(x)[2]
    if isinstance(more, int) and more == 0:
        return x
    return c.op("pad", x, name=name, before=(0, 0, 0, 0), after=(0, 0, more, 0), value=0.0)


def _mixed(
    c: OnnxContext,
    node: NodeProto,
    a: dict[str, Any],
    q: str,
    keys: Sequence[str],
    values: Sequence[str],
    lengths: _Lengths,
    places: str | None = None,
) -> str:
    """The values [B, S, N * H] mixed by the softmax of the scores.

    Args:
        q: queries [B, S, N, H].
        keys, values: in parts, each [B, M, some of T, H].
        places: positions of the keys, [B, 1, 1, 1, T]; None: 0 to T - 1.
    """
    name, (b, s, n, h), m = node.output[0], c.b.shape(q), c.b.shape(keys[0])[1]
    counts = [c.b.shape(k)[2] for k in keys]
    t: Extent = sum(counts)
    q = c.op("reshape", q, shape=(b, s, m, n // m, h))
    apart = [
        c.op("einsum", q, k, equation="bsmgd,bmtd->bmgst", name=f"{name}_scores") for k in keys
    ]
    scores = apart[0] if len(apart) == 1 else c.op("concat", *apart, axis=4)
    factor = float(a.get("scale", 0.0)) or 1.0 / math.sqrt(known(h))
    scores = c.op("multiply", scores, like(c, factor, scores))
    cap = float(a.get("softcap", 0.0))
    if cap > 0.0:
        scores = c.op("tanh", c.op("divide", scores, like(c, cap, scores)))
        scores = c.op("multiply", scores, like(c, cap, scores))
    if optional(node, 10):
        bias = along(c, c.value(node.input[10]), 3, 0, t, f"{name}_bias")
        own, each = c.b.shape(bias)[:2]
        heads = (1, 1) if each == 1 else (m, n // m)
        scores = c.op("add", scores, c.op("reshape", bias, shape=(own, *heads, s, t)))
    scores = c.op("where", _seen(c, a, lengths, t, places), scores, like(c, -np.inf, scores))
    shares = _softmax(c, node, a, scores)
    firsts = accumulate(counts, initial=0)
    mixed = ""
    for v, first, count in zip(values, firsts, counts, strict=False):
        part = shares if len(apart) == 1 else along(c, shares, 4, first, count, f"{name}_shares")
        more = c.op("einsum", part, v, equation="bmgst,bmtd->bsmgd")
        mixed = c.op("add", mixed, more) if mixed else more
    return c.op("reshape", mixed, name=name, shape=(b, s, n * h))


def _seen(
    c: OnnxContext, a: dict[str, Any], lengths: _Lengths, keys: Extent, places: str | None
) -> str:
    """Which keys each query sees: [B or 1, 1, 1, S, T]; those not after it, in the window."""
    new, ends = lengths.new, lengths.ends
    place = places or positions(c, keys, 1, 1, 1, 1)
    column = (c.b.shape(ends)[0], 1, 1, 1, 1)
    ends = c.op("reshape", ends, shape=column)
    if a.get("causal", 1):
        limits = _steps(c, new)
        if lengths.starts is not None:
            limits = c.op("add", c.op("reshape", lengths.starts, shape=column), limits)
        # tokens behind the end of a short prompt see its last keys; what ONNX Runtime computes
        # for them depends on which of its kernels runs
        if lengths.short:
            limits = c.op("minimum", limits, ends)
    else:
        limits = ends
    seen = c.op("less", place, limits)
    window = int(a.get(_WINDOW, -1))
    if 0 < window < most(keys) or (places and window > 0):
        first = c.op("subtract", limits, like(c, window, limits))
        seen = c.op("logical_and", seen, c.op("greater_equal", place, first))
    return seen


def _steps(c: OnnxContext, new: Extent) -> str:
    """How many new tokens there are up to each: 1 to S, [1, 1, 1, S, 1]."""
    if isinstance(new, int):
        steps = np.arange(1, new + 1, dtype=np.int32).reshape(1, 1, 1, new, 1)
        return c.b.constant(steps, "steps")
    before = c.op("reshape", positions(c, new), shape=(1, 1, 1, new, 1))
    return c.op("add", before, like(c, 1, before))


def _softmax(c: OnnxContext, node: NodeProto, a: dict[str, Any], scores: str) -> str:
    """Shares of the keys; with a sink for each head, or of score 0, some goes to nobody."""
    name, sink = f"{node.output[0]}_shares", optional(node, 11)
    if not sink and a.get("smooth_softmax", 0) != 1:
        return c.op("softmax", scores, axis=4, name=name)
    b, m, g, s, t = c.b.shape(scores)
    if sink:
        extra = c.op("reshape", c.value(sink), shape=(1, m, g, 1, 1))
    else:
        extra = c.b.constant(np.zeros((1,) * 5, c.b.types[scores].dtype), "sink")
    extra = c.op("expand", extra, shape=(b, m, g, s, 1))
    wide = c.op("softmax", c.op("concat", scores, extra, axis=4), axis=4, name=name)
    return along(c, wide, 4, 0, t, name)


CONVERTERS: dict[str, Converter] = {"GroupQueryAttention": _group_query}
