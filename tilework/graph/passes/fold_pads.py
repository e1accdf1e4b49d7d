"""Fold explicit zero padding into convolutions."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, keep, rewrite


def fold_pads(net: Network) -> Network:
    """Let convolutions pad for themselves.

    rewrite:
        conv2d(pad(x, 0 along H and W), w; pads)  ->  conv2d(x, w; pads + the padding)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        source = net.producer.get(node.inputs[0])
        if node.op != "conv2d" or source is None or source.op != "pad":
            return keep(b, node, inputs)
        around = _spatial(source, node.attrs["layout"])
        if around is None:
            return keep(b, node, inputs)
        pads = tuple(p + q for p, q in zip(node.attrs["pads"], around, strict=True))
        x = unpadded[source.name]
        return b.op("conv2d", x, inputs[1], name=node.name, **{**node.attrs, "pads": pads})

    unpadded: dict[str, str] = {}

    def remember(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        if node.op == "pad":
            unpadded[node.name] = inputs[0]
        return rule(b, node, inputs)

    return rewrite(net, remember)


def _spatial(pad: Node, layout: str) -> tuple[int, int, int, int] | None:
    """Top, left, bottom, right of a zero padding of the feature maps; None for any other."""
    before, after = list(pad.attrs["before"]), list(pad.attrs["after"])
    if pad.attrs["value"] != 0 or len(before) != 4:
        return None
    h, w = (1, 2) if layout == "NHWC" else (2, 3)
    others = [d for d in range(4) if d not in (h, w)]
    if any(before[d] or after[d] for d in others):
        return None
    return before[h], before[w], after[h], after[w]
