"""Calls of functions: the functions' nodes are visited in the place of the call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tilework.graph.onnx.context import Unsupported
from tilework.graph.onnx.convert import CONVERTERS
from tilework.graph.onnx.expanded import expansion
from tilework.graph.onnx.protos import FunctionProto, GraphProto, NodeProto, OperatorSetIdProto
from tilework.graph.onnx.scopes import Scopes
from tilework.graph.onnx.standard import definition
from tilework.graph.operators import ValueType

STANDARD = ("", "ai.onnx")
"""Domains of the standard operators."""


class Calls:
    """The functions of a model, and those that the standard defines operators as.

    Args:
        functions: the model's own.
    """

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        self._own = {(f.domain, f.name, f.overload): f for f in functions}
        self._shared: dict[str, dict[str, str]] = {}  # function -> its constants, defined once

    def called(self, node: NodeProto) -> FunctionProto | None:
        """The function that a node calls, the model's own or a known one; None if none."""
        own = self._own.get((node.domain, node.op_type, node.overload))
        return expansion(node) if own is None else own

    def visit(self, c: Scopes, function: FunctionProto, node: NodeProto) -> None:
        """Visit the nodes of a function in the place of ``node``, which calls it.

        Raises:
            Unsupported: the function calls itself, or becomes too many nodes.
        """
        label = f"{function.domain}.{function.name}.{function.overload}"
        with c.within(label, len(function.node)) as number:
            prefix = f"{node.name or node.op_type}.{number}."
            outer, c.opset = c.opset, _version(function.opset_import, c.opset)
            try:
                shared = self._constants_of(c, function, label)
                for n in body(function, node, prefix, shared):
                    c.node(n)
                for name, output in zip(function.output, node.output, strict=False):
                    if name in shared and output:
                        c.define(output, c.constants[shared[name]])
            finally:
                c.opset = outer

    def visit_definition(self, c: Scopes, node: NodeProto) -> bool:
        """Visit what the standard defines a node's operator as, if it does; whether it does."""
        types = [_type(c, i) if i else None for i in node.input]
        defined = definition(node, c.opset, types)
        if defined is None:
            return False
        self.visit(c, *defined)
        return True

    def _constants_of(self, c: Scopes, function: FunctionProto, label: str) -> dict[str, str]:
        """The constants of one of the model's functions, which all its calls share, by name.

        They are no part of any call. Those that cannot be read are left to the calls to complain.
        """
        if (function.domain, function.name, function.overload) not in self._own:
            return {}  # a standard operator's; it may differ from call to call
        if label not in self._shared:
            self._shared[label] = names = {}
            with c.outside():
                for n in function.node:
                    if is_constant(n):
                        name = f"{label}.{n.output[0]} {len(self._shared)}"
                        with contextlib.suppress(Unsupported, ValueError, TypeError):
                            c.constants[name] = np.asarray(CONVERTERS["Constant"](c, n))
                            names[n.output[0]] = name
        return self._shared[label]


def _type(c: Scopes, name: str) -> ValueType:
    if name in c.values:
        return c.b.types[c.values[name]]
    if name in c.numbers:
        return ValueType(c.numbers[name].shape, c.numbers[name].dtype)
    array = c.constants[name]
    return ValueType(array.shape, str(array.dtype))


def _version(imports: Iterable[OperatorSetIdProto], otherwise: int) -> int:
    return next((int(o.version) for o in imports if o.domain in STANDARD), otherwise)


def is_constant(node: NodeProto) -> bool:
    """Whether a function's node is a constant, the same in each call."""
    plain = node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1
    return plain and not any(a.ref_attr_name for a in node.attribute)


def body(
    function: FunctionProto,
    call: NodeProto,
    prefix: str,
    shared: Mapping[str, str] | None = None,
) -> list[NodeProto]:
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
    node: NodeProto, names: Mapping[str, str], prefix: str, attributes: Mapping[str, Any]
) -> NodeProto:
    new = type(node)(
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
    graph: GraphProto, names: Mapping[str, str], prefix: str, attributes: Mapping[str, Any]
) -> None:
    """Rename within a branch of a function, in place; it reads the function's values."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.get(value.name, f"{prefix}{value.name}")
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, f"{prefix}{sparse.values.name}")
    nodes = [_renamed(n, names, prefix, attributes) for n in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
