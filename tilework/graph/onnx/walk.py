"""Visiting the nodes of an ONNX graph in order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import (
    ConstantNeeded,
    Context,
    Result,
    Unsupported,
    ValuesNeeded,
    attributes,
)
from tilework.graph.onnx.convert import CONVERTERS
from tilework.graph.onnx.fold import FOLDABLE, Folding
from tilework.graph.onnx.functions import body, is_constant
from tilework.graph.onnx.legacy import modern
from tilework.graph.onnx.messages import first_line, summary
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.refused import REFUSED
from tilework.graph.onnx.standard import definition, is_function
from tilework.graph.operators import ValueType

if TYPE_CHECKING:
    import onnx

_LONGEST = 300  # characters of a reason
_MOST_EXPANDED = 100_000  # nodes that calls of functions may become, all together
_DEEPEST = 40  # calls and branches within each other

_STANDARD = ("", "ai.onnx")


class Walk(Context):
    """Builds the network node by node, and keeps going after a problem to find the others.

    Args:
        b: takes the network's nodes.
        opset: version of the standard operators.
        places: of the model's weight files, if it has a file.
        functions: the model's own, by domain, name and overload.
    """

    def __init__(
        self,
        b: Builder,
        opset: int,
        places: Places | None = None,
        functions: Iterable[onnx.FunctionProto] = (),
    ) -> None:
        super().__init__(b, opset, places)
        self._functions = {(f.domain, f.name, f.overload): f for f in functions}
        self._problems: list[tuple[str, str, str]] = []  # (operator, node, reason or "")
        self._needed: dict[str, None] = {}  # inputs whose values are needed, in order
        self._only_values = True  # no problem but unknown values of inputs
        self._unknown: set[str] = set()  # values that depend on a problem
        self._unoffered: dict[str, str] = {}  # further outputs that nobody may read -> operator
        # what a value is computed from: values, or inputs of the model, which name themselves
        self._sources: dict[str, tuple[str, ...]] = {}
        self._defined: list[str] = []
        self._folding = Folding(self.budget)
        self._calls: list[str] = []  # functions and branches around the present node
        self._expanded = 0
        self._upcoming: set[str] = set()
        self._shared: dict[str, dict[str, str]] = {}  # function -> its constants, defined once

    def input(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Declare an input of the network."""
        self._define(name, self.b.input(name, shape, dtype))
        self._sources[name] = (name,)

    def constant(self, name: str, array: np.ndarray) -> None:
        """Define a constant."""
        self._define(name, array)

    def graph(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Visit the nodes of the model.

        Raises:
            ValuesNeeded: they can be converted once the values of some inputs are known.
            NetworkError: the graph is corrupt, or some nodes are not supported.
        """
        self._upcoming = {o for n in nodes for o in n.output}
        for node in nodes:
            self.node(node)
        if self._problems:
            told = summary(self._problems)
            if self._only_values:
                raise ValuesNeeded(
                    f"{told}; pass the values of {', '.join(self._needed)} with values={{...}}",
                    list(self._needed),
                )
            raise NetworkError(told)

    def output(self, name: str) -> str:
        """The network's value of an output of the model."""
        if name in self._unoffered:
            op = self._unoffered[name]
            raise NetworkError(f"its output '{name}', a further output of {op}, is unsupported")
        if name not in self.values and name not in self.constants:
            raise NetworkError(f"the file is corrupt: its output '{name}' is never computed")
        try:
            return self.value(name)
        except Unsupported as e:
            raise NetworkError(f"its output '{name}': {e}") from e

    def node(self, node: onnx.NodeProto) -> None:
        """Convert one node, or note why it cannot be."""
        where = node.name or next(iter(node.output), "?")
        outputs = [o for o in node.output if o]
        if any(i in self._unknown for i in node.input):
            self._unknown.update(outputs)
            if not self._known(node):
                reason = REFUSED.get(node.op_type, "") if node.domain in _STANDARD else ""
                self._problem(_operator(node), where, reason, outputs)
            return
        try:
            self._visit(node)
        except ConstantNeeded as e:
            self._value_needed(e, _operator(node), where, outputs)
        except Unsupported as e:
            self._problem(_operator(node), where, str(e), outputs)
        except NetworkError:
            raise
        except MemoryError:
            self._problem(_operator(node), where, "it needs too much memory", outputs)
        except RecursionError:
            self._problem(_operator(node), where, "its graphs are nested too deeply", outputs)
        except Exception as e:  # whatever a converter makes of a malformed node
            self._problem(_operator(node), where, f"malformed: {first_line(e)}", outputs)

    def _known(self, node: onnx.NodeProto) -> bool:
        """Whether there is a conversion of nodes of this kind."""
        if (node.domain, node.op_type, node.overload) in self._functions:
            return True
        if node.domain not in _STANDARD:
            return False
        known = node.op_type in CONVERTERS or node.op_type in FOLDABLE or node.op_type == "If"
        return known or is_function(node.op_type, self.opset)

    def _visit(self, node: onnx.NodeProto) -> None:
        function = self._functions.get((node.domain, node.op_type, node.overload))
        standard = function is None and node.domain in _STANDARD
        known = node.op_type in FOLDABLE and all(i in self.constants for i in node.input if i)
        if standard and node.op_type in REFUSED and not known:
            raise Unsupported(REFUSED[node.op_type])
        if not self._known(node):
            raise Unsupported("")
        unoffered = [i for i in node.input if i in self._unoffered]
        if unoffered:
            op = self._unoffered[unoffered[0]]
            raise Unsupported(f"it reads '{unoffered[0]}', an output of {op} that is unsupported")
        missing = [i for i in node.input if i and i not in self.values and i not in self.constants]
        if missing:
            later = missing[0] in self._upcoming
            raise NetworkError(
                f"the file is corrupt: node '{node.name or node.output[0]}' reads '{missing[0]}', "
                + ("which depends on it or comes later" if later else "which nothing defines")
            )
        if self.opset < 7:
            node = modern(self, node)
        if function is not None:
            self.call(function, node)
        elif node.op_type == "If":
            self._branch(node)
        else:
            result = self._result(node)
            if result is not None:
                self._assign(node, result)

    def _result(self, node: onnx.NodeProto) -> Result | None:
        """What the node computes; None if others were visited in its place."""
        constant = all(i in self.constants for i in node.input if i)
        if constant and node.op_type in FOLDABLE and node.input:
            return list(self._folding.fold(node, self.constants, self.opset))
        if node.op_type not in CONVERTERS:
            if self._defined_by_others(node):
                return None
            raise Unsupported("only supported where all inputs are constants")
        return CONVERTERS[node.op_type](self, node)

    def _assign(self, node: onnx.NodeProto, result: Result) -> None:
        found = result if isinstance(result, list) else [result]
        sources = tuple(dict.fromkeys(i for i in node.input if i in self._sources))
        for output, value in zip_longest(node.output, found):
            if not output:
                continue
            if value is None:
                self._unoffered[output] = node.op_type
                continue
            self._define(output, value)
            if isinstance(value, str) and sources:
                self._sources[output] = sources

    def _define(self, name: str, value: str | np.ndarray) -> None:
        if name in self.values or name in self.constants:
            raise NetworkError(f"the file is corrupt: '{name}' is defined twice")
        self._defined.append(name)
        if isinstance(value, np.ndarray):
            self.constants[name] = value
        else:
            self.values[name] = value

    def _sources_of(self, name: str) -> tuple[str, ...]:
        """The inputs that a value is computed from, by name."""
        seen, stack = {name}, [name]
        while stack:
            found = self._sources.get(stack.pop(), ())
            stack += [n for n in found if n not in seen]
            seen.update(found)
        return tuple(sorted(n for n in seen if self._sources.get(n) == (n,)))

    def tensor(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The array of a tensor in the file; functions and branches bring theirs each time."""
        array = super().tensor(tensor)
        if self._calls and not self.budget.take(array.nbytes):
            raise Unsupported("the constants of functions and branches are too large together")
        return array

    # ------------------------------------------------------------ nodes that stand for others

    def call(self, function: onnx.FunctionProto, node: onnx.NodeProto) -> None:
        """Visit the nodes of a function in the place of ``node``, which calls it.

        Raises:
            Unsupported: the function calls itself, or becomes too many nodes.
        """
        label = f"{function.domain}.{function.name}.{function.overload}"
        if label in self._calls:
            raise Unsupported("it calls itself")
        self._enter(label, len(function.node))
        prefix = f"{node.name or node.op_type}.{self._expanded}."
        outer, self.opset = self.opset, _version(function.opset_import, self.opset)
        try:
            shared = self._constants_of(function, label)
            for n in body(function, node, prefix, shared):
                self.node(n)
            for name, output in zip(function.output, node.output, strict=False):
                if name in shared and output:
                    self._define(output, self.constants[shared[name]])
        finally:
            self.opset = outer
            self._calls.pop()

    def _constants_of(self, function: onnx.FunctionProto, label: str) -> dict[str, str]:
        """The constants of one of the model's functions, which all its calls share, by name.

        They are no part of any call. Those that cannot be read are left to the calls to complain.
        """
        if (function.domain, function.name, function.overload) not in self._functions:
            return {}  # a standard operator's; it may differ from call to call
        if label not in self._shared:
            self._shared[label] = names = {}
            calls, self._calls = self._calls, []  # the file pays for them
            try:
                for n in function.node:
                    if is_constant(n):
                        name = f"{label}.{n.output[0]} {len(self._shared)}"
                        with contextlib.suppress(Unsupported, ValueError, TypeError):
                            self.constants[name] = np.asarray(CONVERTERS["Constant"](self, n))
                            names[n.output[0]] = name
            finally:
                self._calls = calls
        return self._shared[label]

    def _defined_by_others(self, node: onnx.NodeProto) -> bool:
        """Visit what the standard defines the operator as, if it does."""
        types = [self._type(i) if i else None for i in node.input]
        found = definition(node, self.opset, types)
        if found is None:
            return False
        self.call(*found)
        return True

    def _type(self, name: str) -> ValueType:
        if name in self.values:
            return self.b.types[self.values[name]]
        array = self.constants[name]
        return ValueType(array.shape, str(array.dtype))

    def _branch(self, node: onnx.NodeProto) -> None:
        """Visit the branch of an ``If`` whose condition is a constant."""
        condition = self.array(node.input[0], "the condition")
        if condition.size != 1:
            raise Unsupported("its condition is not a single truth value")
        graph = attributes(node)["then_branch" if condition.item() else "else_branch"]
        self._enter("If", len(graph.node))
        before = len(self._defined)
        try:
            for name, array in initial_constants(graph, self):
                self._define(name, array)
            for n in graph.node:
                self.node(n)
            results: list[tuple[str, tuple[str, ...]] | np.ndarray | None] = []
            for out in graph.output:
                if out.name in self.constants:
                    results.append(self.constants[out.name])
                elif out.name in self.values:
                    results.append((self.values[out.name], self._sources_of(out.name)))
                elif out.name in self._unknown:
                    results.append(None)
                else:
                    raise NetworkError(
                        f"the file is corrupt: branch output '{out.name}' is never computed"
                    )
        finally:
            self._calls.pop()
            for name in self._defined[before:]:  # the other branches may use the names again
                self.values.pop(name, None)
                self.constants.pop(name, None)
                self._sources.pop(name, None)
            del self._defined[before:]
        for output, result in zip_longest(node.output, results):
            if not output:
                continue
            if result is None:
                self._unknown.add(output)
            elif isinstance(result, np.ndarray):
                self._define(output, result)
            else:
                self._define(output, result[0])
                self._sources[output] = result[1]

    def _enter(self, label: str, nodes: int) -> None:
        self._expanded += nodes
        if self._expanded > _MOST_EXPANDED:
            raise Unsupported(f"functions and branches become over {_MOST_EXPANDED} nodes")
        if len(self._calls) >= _DEEPEST:
            raise Unsupported(f"functions and branches are over {_DEEPEST} deep")
        self._calls.append(label)

    # ------------------------------------------------------------ problems

    def _problem(self, op: str, where: str, reason: str, outputs: list[str]) -> None:
        if len(reason) > _LONGEST:
            reason = f"{reason[:_LONGEST]} ..."
        self._problems.append((op, where[:_LONGEST], reason))
        self._unknown.update(outputs)
        self._only_values = False

    def _value_needed(self, e: ConstantNeeded, op: str, where: str, outputs: list[str]) -> None:
        """Note that a constant is needed, and which inputs would make it one."""
        inputs = self._sources_of(e.value)
        small = all(n in self.b.inputs and len(self.b.inputs[n].shape) <= 1 for n in inputs)
        only = self._only_values and small and bool(inputs)
        self._needed.update(dict.fromkeys(inputs))
        self._problem(op, where, str(e), outputs)
        self._only_values = only


def initial_constants(graph: onnx.GraphProto, c: Context) -> Iterable[tuple[str, np.ndarray]]:
    """The constants that a graph brings, by name."""
    for tensor in graph.initializer:
        yield tensor.name, c.tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, c.sparse_tensor(sparse)


def _operator(node: onnx.NodeProto) -> str:
    name = (node.op_type or "an operator without a name")[:_LONGEST]
    return name if node.domain in _STANDARD else f"{node.domain}.{name}"


def _version(imports: Iterable[onnx.OperatorSetIdProto], otherwise: int) -> int:
    return next((int(o.version) for o in imports if o.domain in _STANDARD), otherwise)
