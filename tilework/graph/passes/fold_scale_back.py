"""Fold a scale into the convolution before it."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.passes._scales import constant_operand, has_constant_weight, scale_weight


def fold_scale_back(net: Network) -> Network:
    """Multiply output channels at compile time.

    Only where nobody else reads the values between the convolution (or dense layer) and the scale.

    rewrite:
        (conv2d(x, w) + b) * s  ->  conv2d(x, w * s) + b * s
    """
    scales: dict[str, np.ndarray] = {}  # name of a convolution or addition -> its scale
    dropped: set[str] = set()
    for node in net.nodes:
        s = constant_operand(net, node, "multiply")
        chain = None if s is None else _chain(net, node, dropped)
        if s is None or chain is None:
            continue
        dropped.add(node.name)
        for link in chain:
            scales[link] = scales.get(link, 1.0) * s
    if not dropped:
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.name in dropped:
            return inputs[0]
        if node.name not in scales:
            return None
        scale, old = scales[node.name], b.constants[inputs[1]]
        if node.op == "add":
            new = (old.astype(np.float64) * scale).astype(old.dtype)
        else:
            new = scale_weight(node, old, scale, "out")
        return b.op(node.op, inputs[0], b.constant(new, inputs[1]), name=node.name, **node.attrs)

    return rewrite(net, rule)


def _chain(net: Network, scale: Node, dropped: set[str]) -> list[str] | None:
    """Nodes from just before ``scale`` back to the convolution, if they may all be scaled."""
    links: list[str] = []
    value = scale.inputs[0]
    while True:
        node = net.producer.get(value)
        if node is None or len(net.consumers[value]) > 1 or value in net.outputs:
            return None
        if has_constant_weight(net, node):
            return [*links, node.name]
        if constant_operand(net, node, "add") is not None:
            links.append(node.name)
        elif node.name not in dropped:
            return None
        value = node.inputs[0]
