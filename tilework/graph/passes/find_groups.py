"""Recognise normalisation by groups of channels, which exporters write around reshapes."""

from __future__ import annotations

from typing import Any

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.symbols import is_static


def find_groups(net: Network) -> Network:
    """Normalise feature maps as they lie, so that the layout may change around it.

    rewrite (for G groups of C channels, whatever positions follow or precede, S together):
        group_norm(reshape(x[N, G*C, ...], [N, G, C * S]); groups=G)
        normalize(reshape(x[N, G*C, ...], [N, G, C, ...]); axes=all behind G)
            ->  reshape(group_norm(x; groups=G))
        normalize(reshape(x[N, ..., G*C], [N, ..., G, C]); axes=all but those of N and G)
            ->  reshape(group_norm(x; groups=G)), of channels that come last
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        attrs = _grouped(net, node)
        view = b.node(inputs[0], "reshape") if attrs is not None else None
        if attrs is None or view is None:
            return None
        y = b.op("group_norm", view.inputs[0], epsilon=node.attrs["epsilon"], **attrs)
        return b.op("reshape", y, name=node.name, shape=net.types[node.name].shape)

    return rewrite(net, rule)


def _grouped(net: Network, node: Node) -> dict[str, Any] | None:
    """Groups and layout with which ``node`` can read what was reshaped for it."""
    view = net.producer.get(node.inputs[0]) if node.op in ("group_norm", "normalize") else None
    if view is None or view.op != "reshape":
        return None
    before, after = net.types[view.inputs[0]].shape, net.types[view.name].shape
    rank = len(after)
    if not 3 <= len(before) <= 5 or rank < 3 or before[0] != after[0]:
        return None
    if node.op == "group_norm":
        first, groups = node.attrs["layout"] == "NCHW", node.attrs["groups"]
        last = False
    else:
        axes = {d % rank for d in node.attrs["axes"]} if node.attrs["center"] else set[int]()
        first = axes == set(range(2, rank))
        last = not first and axes == set(range(1, rank)) - {rank - 2}
        groups = after[-2 if last else 1]
        if groups == before[-1 if last else 1]:
            return None  # each channel alone, or other dimensions: sums that are as good there
    channels, width = (before[-1], after[-1]) if last else (before[1], 1)
    if not (first or last) or not is_static((channels, groups, width)):
        return None
    if channels % groups or (last and channels != groups * width):
        return None
    return {"groups": groups, "layout": "NHWC" if last else "NCHW"}
