"""Give groups of channels a dimension of their own."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import BINARY, CONVOLUTIONS, UNARY
from tilework.index.extents import Extent, known_shape

_FOLLOWS = (*BINARY, *UNARY, "relu", "clip")


def split_groups(net: Network) -> Network:
    """Turn convolutions of channel groups into ones with a dimension of groups.

    Depthwise convolutions (one channel in, one out) stay as they are. Reshapes are views, which
    cost nothing; elementwise operators behind the convolution move in front of the reshape, so
    that they can still be computed together with it.

    rewrite:
        relu(conv2d(x, w; groups=G) + b)
            ->  merge(relu(grouped_conv2d(split(x), split(w)) + split(b)))

    with split and merge the reshapes between [..., G*C] and [..., G, C].
    """
    groups = {n.name: n.attrs["groups"] for n in net.nodes if _is_grouped(net, n)}
    if not groups:
        return net
    split: dict[str, str] = {}  # merged value of the new network -> the same with split channels

    def merged(b: Builder, value: str, name: str) -> str:
        *outer, g, c = b.shape(value)
        out = b.op("reshape", value, name=name, shape=(*outer, g * c))
        split[out] = value
        return out

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        if node.name in groups:
            g = groups[node.name]
            x, w = (_split(b, v, g) for v in inputs)
            attrs = {k: v for k, v in node.attrs.items() if k not in ("groups", "layout")}
            y = b.op(f"grouped_{node.op}", x, w, name=f"{node.name}_grouped", **attrs)
            return merged(b, y, node.name)
        known = [v for v in inputs if v in split]
        if node.op in _FOLLOWS and len(known) == 1 and _constant_others(b, inputs, known[0]):
            g = b.shape(split[known[0]])[-2]
            args = [split[v] if v in split else _split(b, v, g) for v in inputs]
            return merged(
                b, b.op(node.op, *args, name=f"{node.name}_grouped", **node.attrs), node.name
            )
        return b.op(node.op, *inputs, name=node.name, **node.attrs)

    return rewrite(net, rule)


def _is_grouped(net: Network, node: Node) -> bool:
    if node.op not in CONVOLUTIONS or node.attrs.get("groups", 1) == 1:
        return False
    channels = {net.types[v].shape[-1] for v in (node.inputs[0], node.name)}
    return channels != {node.attrs["groups"]}


def _constant_others(b: Builder, inputs: tuple[str, ...], known: str) -> bool:
    """Whether all other operands are constants whose channels can be split alike."""
    shape = b.shape(known)
    for v in inputs:
        if v == known:
            continue
        own = b.shape(v)
        if v not in b.constants or len(own) != len(shape) or own[-1] not in (1, shape[-1]):
            return False
        if any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
            return False
    return True


def _split(b: Builder, value: str, groups: Extent) -> str:
    """``value`` with its last dimension split in groups; one element is for all of them."""
    *outer, c = b.shape(value)
    shape = (*outer, groups, c // groups) if c != 1 or groups == 1 else (*outer, 1, 1)
    if value in b.constants:
        return b.constant(b.constants[value].reshape(known_shape(shape)), value)
    return b.op("reshape", value, name=f"{value}_split", shape=shape)
