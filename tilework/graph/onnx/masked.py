"""One number put where a mask says so, as exporters write it: by the places of what is true.

``x[mask] = number`` becomes ``ScatterND(x, Transpose(NonZero(Expand(mask, Shape(x)))), numbers)``.
How many places there are depends on data. A choice between the number and ``x`` needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.graph.onnx.calls import STANDARD
from tilework.graph.onnx.context import attributes
from tilework.graph.onnx.protos import GraphProto, NodeProto, messages
from tilework.graph.onnx.reads import reads


def choices(graph: GraphProto, nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes of a graph with a ``Where`` for each such assignment, and without what it read.

    Args:
        nodes: in execution order.
    """
    if all(n.op_type != "NonZero" for n in nodes):
        return nodes
    makers = {o: n for n in nodes for o in n.output}
    numbers = {t.name for t in graph.initializer if list(t.dims) in ([], [1])}
    numbers -= {i.name for i in graph.input}
    chosen = [part for n in nodes for part in _choice(n, makers, numbers) or (n,)]
    if len(chosen) == len(nodes):
        return nodes
    needed, kept = {o.name for o in graph.output}, []
    for node in reversed(chosen):
        if needed & {*node.output}:
            needed.update(reads(node))
            kept.append(node)
    return kept[::-1]


def _choice(
    node: NodeProto, makers: Mapping[str, NodeProto], numbers: set[str]
) -> tuple[NodeProto, ...]:
    """The mask as truth values and the ``Where`` that a node is; empty if it is none."""
    scatters = node.op_type == "ScatterND" and node.domain in STANDARD
    if not scatters or attributes(node).get("reduction", "none") != "none":
        return ()
    data, places, new = node.input
    transposed = _made(makers, places, "Transpose")
    nonzero = _made(makers, transposed, "NonZero")
    spread = _made(makers, nonzero, "Expand")
    shape = _made(makers, spread.input[1], "Shape") if spread is not None else None
    if shape is None or shape.input[0] != data or any(attributes(shape).values()):
        return ()
    if transposed is None or list(attributes(transposed).get("perm", (1, 0))) != [1, 0]:
        return ()
    while (view := makers.get(new)) is not None and view.op_type in ("Expand", "Reshape"):
        new = view.input[0]
    if new not in numbers or spread is None:
        return ()
    m, mask = messages(), f" mask of {node.output[0]}"  # no value of a file is called so
    truth: NodeProto = m.NodeProto(op_type="Cast", name=node.name, output=[mask])
    truth.input.append(spread.input[0])
    truth.attribute.append(
        m.AttributeProto(name="to", type=m.AttributeProto.INT, i=m.TensorProto.BOOL)
    )
    where: NodeProto = m.NodeProto(op_type="Where", name=node.name, output=node.output)
    where.input.extend((mask, new, data))
    return truth, where


def _made(
    makers: Mapping[str, NodeProto], by: NodeProto | str | None, op: str
) -> NodeProto | None:
    """The node of an operator that makes a value, or the first input of a node."""
    name = by if isinstance(by, str) else by.input[0] if by is not None else ""
    node = makers.get(name)
    standard = node is not None and node.op_type == op and node.domain in STANDARD
    return node if standard else None
