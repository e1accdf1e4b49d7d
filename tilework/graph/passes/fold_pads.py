"""Fold explicit zero padding into convolutions."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, keep, rewrite
from tilework.graph.operators import CONVOLUTIONS


def fold_pads(net: Network) -> Network:
    """Let convolutions pad for themselves.

    rewrite:
        conv2d(pad(x, 0 along H and W), w; pads)  ->  conv2d(x, w; pads + the padding)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        source = net.producer.get(node.inputs[0])
        if node.op not in CONVOLUTIONS or source is None or source.op != "pad":
            return keep(b, node, inputs)
        around = _spatial(source, node.attrs["layout"])
        if around is None:
            return keep(b, node, inputs)
        pads = tuple(p + q for p, q in zip(node.attrs["pads"], around, strict=True))
        x = unpadded[source.name]
        return b.op(node.op, x, inputs[1], name=node.name, **{**node.attrs, "pads": pads})

    unpadded: dict[str, str] = {}

    def remember(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        if node.op == "pad":
            unpadded[node.name] = inputs[0]
        return rule(b, node, inputs)

    return rewrite(net, remember)


def _spatial(pad: Node, layout: str) -> tuple[int, ...] | None:
    """Zeros before, then after, each spatial axis of the feature maps; None for other padding."""
    before, after = list(pad.attrs["before"]), list(pad.attrs["after"])
    spatial = slice(1, -1) if layout == "NHWC" else slice(2, None)
    others = (0, len(before) - 1) if layout == "NHWC" else (0, 1)
    if pad.attrs["value"] != 0 or any(before[d] or after[d] for d in others):
        return None
    return (*before[spatial], *after[spatial])
