"""Calls of functions: the functions' nodes are visited in the place of the call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.context import Unsupported
from tilework.graph.onnx.convert import CONVERTERS
from tilework.graph.onnx.functions import body, is_constant
from tilework.graph.onnx.scopes import Scopes
from tilework.graph.onnx.standard import definition
from tilework.graph.operators import ValueType

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
"""Domains of the standard operators."""


class Calls:
    """The functions of a model, and those that the standard defines operators as.

    Args:
        functions: the model's own.
    """

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self._own = {(f.domain, f.name, f.overload): f for f in functions}
        self._shared: dict[str, dict[str, str]] = {}  # function -> its constants, defined once

    def called(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """The model's own function that a node calls; None if it calls none."""
        return self._own.get((node.domain, node.op_type, node.overload))

    def visit(self, c: Scopes, function: onnx.FunctionProto, node: onnx.NodeProto) -> None:
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

    def visit_definition(self, c: Scopes, node: onnx.NodeProto) -> bool:
        """Visit what the standard defines a node's operator as, if it does; whether it does."""
        types = [_type(c, i) if i else None for i in node.input]
        found = definition(node, c.opset, types)
        if found is None:
            return False
        self.visit(c, *found)
        return True

    def _constants_of(self, c: Scopes, function: onnx.FunctionProto, label: str) -> dict[str, str]:
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


def _version(imports: Iterable[onnx.OperatorSetIdProto], otherwise: int) -> int:
    return next((int(o.version) for o in imports if o.domain in STANDARD), otherwise)
