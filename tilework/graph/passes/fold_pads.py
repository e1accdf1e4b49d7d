"""Fold explicit padding into the window operators behind it."""

from __future__ import annotations

import math

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import AVG_POOLS, CONVOLUTIONS, MAX_POOLS


def fold_pads(net: Network) -> Network:
    """Let convolutions and pooling pad for themselves.

    rewrite:
        conv2d(pad(x, 0 along H and W), w; pads)  ->  conv2d(x, w; pads + the padding)
        avg_pool2d(pad(x, 0); counting padding)   ->  avg_pool2d(x; pads + the padding)
        max_pool2d(pad(x, -inf))                  ->  max_pool2d(x; pads + the padding)
        max_pool2d(pad(relu(x), 0))               ->  max_pool2d(relu(x); pads + the padding)

    Pooling takes it only while every window keeps an element of x.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        pad = b.node(inputs[0], "pad") if inputs else None
        if pad is None or not _takes(b, node, pad):
            return None
        around = _spatial(pad, node.attrs["layout"])
        if around is None:
            return None
        attrs = dict(node.attrs)
        attrs["pads"] = tuple(p + q for p, q in zip(attrs["pads"], around, strict=True))
        if node.op in AVG_POOLS:
            attrs["count_include_pad"] = True
        if node.op not in CONVOLUTIONS and not _meets(attrs):
            return None
        return b.op(node.op, pad.inputs[0], *inputs[1:], name=node.name, **attrs)

    return rewrite(net, rule)


def _takes(b: Builder, node: Node, pad: Node) -> bool:
    """Whether the operator's own padding has the same effect as that of ``pad``."""
    value = pad.attrs["value"]
    if node.op in CONVOLUTIONS:
        return bool(value == node.attrs.get("fill", 0))
    plain = {"kernel", "strides", "pads", "dilation", "layout", "count_include_pad"}
    if set(node.attrs) - plain:
        return False  # such as rounding up, where the last windows hang on the padding
    if node.op in AVG_POOLS:
        none = not any(node.attrs["pads"])
        return bool(value == 0 and (none or node.attrs["count_include_pad"]))
    if node.op in MAX_POOLS:
        source = b.node(pad.inputs[0], "relu", "clip")
        positive = source is not None and source.attrs.get("low", 0) >= 0
        return bool(value == -math.inf or (value == 0 and positive))
    return False


def _meets(attrs: dict[str, tuple[int, ...]]) -> bool:
    """Whether padding is narrower than the window, so that no window sees padding alone."""
    kernel, pads = attrs["kernel"], attrs["pads"]
    rank = len(kernel)
    dense = all(d == 1 for d in attrs.get("dilation", ()))
    return dense and all(max(pads[d], pads[d + rank]) < kernel[d] for d in range(rank))


def _spatial(pad: Node, layout: str) -> tuple[int, ...] | None:
    """Padding before, then after, each spatial axis; None if other axes are padded."""
    before, after = list(pad.attrs["before"]), list(pad.attrs["after"])
    spatial = slice(1, -1) if layout == "NHWC" else slice(2, None)
    others = (0, len(before) - 1) if layout == "NHWC" else (0, 1)
    if any(before[d] or after[d] for d in others):
        return None
    return (*before[spatial], *after[spatial])
