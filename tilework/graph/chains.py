"""Depthwise and pointwise convolutions in a row share a group, so that the search may fuse them.

Such a group's space holds both forms: two nests in sequence, and the first convolution computed
per tile of the second, where its result never leaves a thread's own cache. The search compares
them by time. Other convolutions in a row stay apart: computing a tile's input again for its
neighbours, or for each tile of channels, costs more there than the traffic that it saves. So do
small maps, which stay in the second-level cache from one kernel to the next, and strided
depthwise convolutions, which read several times what they write. So do those in narrow floats:
what passes between them would stay float32, of which there are no dot products.

How small is small, the target's kind says: `tilework.target.Target.chain_limits`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tilework.graph.ir import Network, Node
from tilework.index.symbols import range_of
from tilework.target import ChainLimits

_FINISH = frozenset({"add", "subtract", "multiply", "at_least", "at_most", "relu", "clip"})

Group = tuple[Node, ...]


def fuse_chains(net: Network, groups: Sequence[Group], limits: ChainLimits) -> list[Group]:
    """Merge neighbours of kind depthwise, pointwise; what is left, also pointwise, depthwise.

    Args:
        net: the network that the groups partition.
        groups: in execution order; the last node of each is its output.
        limits: which convolutions are worth it.
    """

    def depthwise(node: Node) -> bool:
        return _depthwise(net, node, limits)

    def pointwise(node: Node) -> bool:
        return _pointwise(net, node)

    uses = Counter(v for n in net.nodes for v in n.inputs)
    uses.update(net.outputs)
    out = list(groups)
    for first_is_depthwise in (True, False):
        by_output = {g[-1].name: g for g in out}
        merged: dict[str, Group] = {}
        gone: set[str] = set()
        for second in out:
            first = by_output.get(next(iter(second[0].inputs), ""))
            if first is None or first[-1].name in gone or first[-1].name in merged:
                continue
            order = (depthwise, pointwise) if first_is_depthwise else (pointwise, depthwise)
            kinds = order[0](first[0]) and order[1](second[0])
            large = range_of(4 * math.prod(net.types[first[-1].name].shape))[0] >= limits.min_bytes
            if (
                kinds
                and large
                and uses[first[-1].name] == 1
                and _finishes(net, first)
                and all(n.op != "conv2d" for n in second[1:])  # it was not merged before
            ):
                merged[second[-1].name] = (*first, *second)
                gone.add(first[-1].name)
        out = [merged.get(g[-1].name, g) for g in out if g[-1].name not in gone]
    return out


def _depthwise(net: Network, node: Node, limits: ChainLimits) -> bool:
    """A 2-D depthwise convolution of few taps and stride 1."""
    if node.op != "conv2d" or node.attrs.get("groups", 1) == 1:
        return False
    shape, kernel = net.types[node.name].shape, net.types[node.inputs[1]].shape[:2]
    few = shape[-1] <= limits.max_channels and math.prod(kernel) <= limits.max_taps
    return few and tuple(node.attrs["strides"]) == (1, 1)


def _pointwise(net: Network, node: Node) -> bool:
    """A 1x1 convolution that reads every pixel once."""
    if node.op != "conv2d" or node.attrs.get("groups", 1) != 1:
        return False
    plain = tuple(node.attrs["strides"]) == (1, 1) and not any(node.attrs["pads"])
    kernel = net.types[node.inputs[1]].shape[:2]
    return plain and tuple(kernel) == (1, 1) and node.attrs["layout"] == "NHWC"


def _finishes(net: Network, group: Group) -> bool:
    """Whether all behind the convolution is cheap, and reads constants besides the node before."""
    return all(
        node.op in _FINISH
        and node.inputs.count(before.name) == 1
        and all(v == before.name or v in net.constants for v in node.inputs)
        for before, node in pairwise(group)
    )
