"""What a node reads: its inputs, and what the graphs within it take from around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def reads(node: onnx.NodeProto) -> list[str]:
    """The names that a node reads, each once, in order."""
    names = dict.fromkeys(i for i in node.input if i)
    for graph in graphs_of(node):
        names.update(dict.fromkeys(_free(graph)))
    return list(names)


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs


def within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from within(graph.node)


def read_by(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """What some nodes together read that none of them computes."""
    computed = {o for n in nodes for o in n.output}
    return list(dict.fromkeys(i for n in nodes for i in reads(n) if i not in computed))


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a graph uses and does not define."""
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in known)
        known.update(node.output)
    yield from (v.name for v in graph.output if v.name not in known)
