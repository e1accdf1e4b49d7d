"""One number put where a mask says so, as exporters write it: by the places of what is true.

``x[mask] = number`` becomes ``ScatterND(x, Transpose(NonZero(Expand(mask, Shape(x)))), numbers)``.
How many places there are depends on data. A choice between the number and ``x`` needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.graph.onnx.context import attributes
from tilework.graph.onnx.protos import GraphProto, NodeProto, messages
from tilework.graph.onnx.reads import reads


def choices(graph: GraphProto, nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes of a graph with each such assignment as a ``Where``, and without what it read.

    Args:
        nodes: in execution order.
    """
    if all(n.op_type != "NonZero" for n in nodes):
        return nodes
    makers = {o: n for n in nodes for o in n.output}
    numbers = {t.name for t in graph.initializer if list(t.dims) in ([], [1])}
    numbers -= {i.name for i in graph.input}
    chosen = [_choice(n, makers, numbers) or n for n in nodes]
    if chosen == [*nodes]:
        return nodes
    needed, kept = {o.name for o in graph.output}, []
    for node in reversed(chosen):
        if needed & {*node.output}:
            needed.update(reads(node))
            kept.append(node)
    return kept[::-1]


def _choice(
    node: NodeProto, makers: Mapping[str, NodeProto], numbers: set[str]
) -> NodeProto | None:
    """The ``Where`` that a node is; None if it is none."""
    if node.op_type != "ScatterND" or attributes(node).get("reduction", "none") != "none":
        return None
    data, places, new = node.input
    transposed = _made(makers, places, "Transpose")
    nonzero = _made(makers, transposed, "NonZero")
    spread = _made(makers, nonzero, "Expand")
    shape = _made(makers, spread.input[1], "Shape") if spread is not None else None
    if shape is None or shape.input[0] != data or any(attributes(shape).values()):
        return None
    if transposed is None or list(attributes(transposed).get("perm", (1, 0))) != [1, 0]:
        return None
    while (view := makers.get(new)) is not None and view.op_type in ("Expand", "Reshape"):
        new = view.input[0]
    if new not in numbers or spread is None:
        return None
    where: NodeProto = messages().NodeProto(op_type="Where", name=node.name, output=node.output)
    where.input.extend((spread.input[0], new, data))
    return where


def _made(
    makers: Mapping[str, NodeProto], by: NodeProto | str | None, op: str
) -> NodeProto | None:
    """The node of an operator that makes a value, or the first input of a node."""
    name = by if isinstance(by, str) else by.input[0] if by is not None else ""
    node = makers.get(name)
    return node if node is not None and node.op_type == op else None
