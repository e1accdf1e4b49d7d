"""What a node reads: its inputs, and what the graphs within it take from around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilework.graph.onnx.protos import GraphProto, NodeProto


def reads(node: NodeProto) -> list[str]:
    """The names that a node reads, each once, in order."""
    names = dict.fromkeys(i for i in node.input if i)
    for graph in graphs_of(node):
        names.update(dict.fromkeys(_free(graph)))
    return list(names)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs


def within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from within(graph.node)


def read_by(nodes: Sequence[NodeProto]) -> list[str]:
    """What some nodes together read that none of them computes."""
    computed = {o for n in nodes for o in n.output}
    return list(dict.fromkeys(i for n in nodes for i in reads(n) if i not in computed))


def in_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes, each behind those that compute what it reads.

    The standard asks for it, and most files are so. ONNX Runtime takes any order, and its own
    converter to float16 appends what converts the inputs. Nodes of a circle stay in it.
    """
    if _are_in_order(nodes):
        return nodes
    maker: dict[str, int] = {}
    for n, node in enumerate(nodes):
        for name in filter(None, node.output):
            maker.setdefault(name, n)
    needs = [[maker[i] for i in reads(node) if i in maker] for node in nodes]
    begun: set[int] = set()
    done: dict[int, None] = {}
    for n in range(len(nodes)):
        stack = [n]
        while stack:
            at = stack[-1]
            begun.add(at)
            first = [m for m in reversed(needs[at]) if m not in begun]
            stack += first
            if not first:
                done.setdefault(stack.pop())
    return [nodes[n] for n in done]


def _are_in_order(nodes: Sequence[NodeProto]) -> bool:
    later = {name for node in nodes for name in node.output}
    later.discard("")
    for node in nodes:
        if not later.isdisjoint(reads(node) if node.op_type in _WITH_GRAPHS else node.input):
            return False
        later.difference_update(node.output)
    return True


_WITH_GRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""Operators whose nodes read what their inputs do not name."""


def _free(graph: GraphProto) -> Iterator[str]:
    """The names that a graph uses and does not define."""
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in known)
        known.update(node.output)
    yield from (v.name for v in graph.output if v.name not in known)
