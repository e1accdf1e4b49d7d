"""Fold a scale into the convolutions after it."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.passes._scales import constant_operand, has_constant_weight, scale_weight

# below this a scale is as good as zero: dividing by it could overflow float32
_SMALLEST = 1e-12


def fold_scale_forward(net: Network) -> Network:
    """Multiply input channels at compile time.

    Because ``relu(x*s + b) = s * relu(x + b/s)`` for s > 0, a scale passes through additions of
    constants and ReLUs to the convolutions (or dense layers) that read the result; zero padding
    does not mind a scale. All readers must take it, or nothing changes.

    rewrite:
        conv2d(relu(x * s + b), w)  ->  conv2d(relu(x + b / s), s * w)
    """
    divide: dict[str, np.ndarray] = {}  # additions: their constant is divided by this
    weights: dict[str, np.ndarray] = {}  # convolutions: their input channels are scaled by this
    dropped: set[str] = set()
    for node in net.nodes:
        s = constant_operand(net, node, "multiply")
        takers = None if s is None else _takers(net, node, s)
        if s is None or takers is None:
            continue
        dropped.add(node.name)
        for name in takers:
            table = divide if net.producer[name].op == "add" else weights
            table[name] = table.get(name, 1.0) * s
    if not dropped:
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.name in dropped:
            return inputs[0]
        if node.name in divide:
            new = (b.constants[inputs[1]].astype(np.float64) / divide[node.name]).astype("float32")
        elif node.name in weights:
            new = scale_weight(node, b.constants[inputs[1]], weights[node.name], "in")
        else:
            return None
        return b.op(node.op, inputs[0], b.constant(new, inputs[1]), name=node.name, **node.attrs)

    return rewrite(net, rule)


def _takers(net: Network, scale: Node, s: np.ndarray) -> list[str] | None:
    """Additions and convolutions that must change for ``scale`` to go; None if it must stay."""
    takers: list[str] = []
    stack = [scale.name]
    while stack:
        value = stack.pop()
        if value in net.outputs:
            return None
        for reader in net.consumers.get(value, ()):
            if has_constant_weight(net, reader) and reader.inputs[0] == value:
                takers.append(reader.name)
                continue
            if constant_operand(net, reader, "add") is not None and _divisible(net, reader, s):
                takers.append(reader.name)
            elif reader.op != "relu" or s.min() <= 0:
                return None
            stack.append(reader.name)
    return takers


def _divisible(net: Network, add: Node, s: np.ndarray) -> bool:
    """Whether the constant of ``add`` survives division by the scale, and broadcasts with it."""
    same_channels = net.types[add.name].shape[-1] == s.size
    return same_channels and bool(np.abs(s).min() > _SMALLEST)
