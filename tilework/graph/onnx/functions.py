"""Calls of functions replaced by the functions' nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx


def is_constant(node: onnx.NodeProto) -> bool:
    """Whether a function's node is a constant, the same in each call."""
    plain = node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1
    return plain and not any(a.ref_attr_name for a in node.attribute)


def body(
    function: onnx.FunctionProto,
    call: onnx.NodeProto,
    prefix: str,
    shared: Mapping[str, str] | None = None,
) -> list[onnx.NodeProto]:
    """The nodes that take the place of ``call``.

    before: y = f(x; k=2) with  f(a; k) { t = Mul(a, a)  b = Add(t, a; axis=@k) }
    after:  p.t = Mul(x, x)     y = Add(p.t, x; axis=2)         (``prefix`` being ``p.``)

    Args:
        function: of the model, or of the schema of an operator.
        call: a node that names the function; inputs and outputs may be left out.
        prefix: makes the names of what is computed within unique.
        shared: constants of the function that are defined elsewhere, and their names there; their
            nodes are left out.
    """
    shared = shared or {}
    names = {"": "", **shared}
    for i, name in enumerate(function.input):
        names[name] = call.input[i] if i < len(call.input) else ""
    for i, name in enumerate(function.output):
        given = call.output[i] if i < len(call.output) else ""
        if name not in shared:
            names[name] = given or f"{prefix}{name}"
    given_attributes = {a.name: a for a in function.attribute_proto}
    given_attributes |= {a.name: a for a in call.attribute}
    nodes = (n for n in function.node if not (is_constant(n) and n.output[0] in shared))
    return [_renamed(n, names, prefix, given_attributes) for n in nodes]


def _renamed(
    node: onnx.NodeProto, names: Mapping[str, str], prefix: str, attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    import onnx

    new = onnx.NodeProto(
        op_type=node.op_type,
        domain=node.domain,
        overload=node.overload,
        name=f"{prefix}{node.name}" if node.name else "",
        input=[names.get(i, f"{prefix}{i}") for i in node.input],
        output=[names.get(o, f"{prefix}{o}") for o in node.output],
    )
    for a in node.attribute:
        if a.ref_attr_name:
            if a.ref_attr_name in attributes:
                added = new.attribute.add()
                added.CopyFrom(attributes[a.ref_attr_name])
                added.name = a.name
            continue
        added = new.attribute.add()
        added.CopyFrom(a)
        for graph in ([added.g] if added.HasField("g") else []) + list(added.graphs):
            _rename_graph(graph, names, prefix, attributes)
    return new


def _rename_graph(
    graph: onnx.GraphProto, names: Mapping[str, str], prefix: str, attributes: Mapping[str, Any]
) -> None:
    """Rename within a branch of a function, in place; it reads the function's values."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.get(value.name, f"{prefix}{value.name}")
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, f"{prefix}{sparse.values.name}")
    nodes = [_renamed(n, names, prefix, attributes) for n in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
