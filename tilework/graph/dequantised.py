"""Where quantised numbers are dequantised: by the kernel that reads them, or not at all.

Fusion puts an operator into the group of what it reads. So the last thing that a group does may be
to dequantise its result, which is four times as large then. Such an operator goes to the group of
its reader. Within a group numbers are dequantised as soon as they are quantised: they need not
become integers on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilework.graph.ir import Network, Node
from tilework.graph.operators import OPERATORS, Pattern
from tilework.graph.operators.quantized import QUANTIZED

Group = tuple[Node, ...]


def read_as_stored(net: Network, groups: Sequence[Group]) -> list[Group]:
    """Groups whose results are stored as they were quantised.

    Args:
        net: the network that the groups partition.
        groups: in execution order; the last node of each is its output.
    """
    where = {node.name: i for i, group in enumerate(groups) for node in group}
    out = [list(group) for group in groups]
    for group in out:
        last = group[-1]
        readers = net.consumers.get(last.name, ())
        if last.op != "dequantize" or len(readers) != 1 or last.name in net.outputs:
            continue
        (reader,) = readers
        pooled = reader.op == "global_avg_pool"
        taken = pooled or (len(group) > 1 and _takes(reader))
        inside = len(group) == 1 or group[-2].name == last.inputs[0]
        if net.types[last.inputs[0]].dtype in QUANTIZED and taken and inside:
            group.pop()
            other = out[where[reader.name]]
            other.insert(other.index(reader), last)
    return [tuple(group) for group in out if group]


def _takes(reader: Node) -> bool:
    """Whether an operator works element by element, so that its operand may be computed there."""
    return OPERATORS[reader.op].pattern <= Pattern.BROADCAST


def whole_numbers(net: Network, groups: Sequence[Group]) -> list[Group]:
    """Groups in which numbers that are dequantised at once stay float32."""
    return [tuple(_whole(net, node, group) for node in group) for group in groups]


def _whole(net: Network, node: Node, group: Group) -> Node:
    readers = net.consumers.get(node.name, ())
    if node.op not in ("quantize", "requantize") or "of" not in node.attrs or not readers:
        return node
    alone = node.name not in net.outputs and all(
        any(r is n for n in group) and r.op == "dequantize" and _known(net, r) for r in readers
    )
    return replace(node, attrs={**node.attrs, "whole": True}) if alone else node


def _known(net: Network, node: Node) -> bool:
    return net.types[node.inputs[-1]].dtype == "float32"
