"""Visiting the nodes of an ONNX graph in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np

from tilework.errors import NetworkError, UnknownExtent
from tilework.graph import failures
from tilework.graph.failures import left_alone
from tilework.graph.ir import Builder
from tilework.graph.onnx import branches, loops, sequences
from tilework.graph.onnx.arithmetic import KNOWN, computed
from tilework.graph.onnx.calls import STANDARD, Calls
from tilework.graph.onnx.context import ConstantNeeded, RangesNeeded, Result, Unsupported
from tilework.graph.onnx.convert import converter
from tilework.graph.onnx.convert.elementwise import of_large_bytes
from tilework.graph.onnx.fold import FOLDABLE, Folding, NotFolded
from tilework.graph.onnx.legacy import modern
from tilework.graph.onnx.messages import first_line
from tilework.graph.onnx.numbers import NotKnown, Numbers
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.problems import LONGEST, Problems
from tilework.graph.onnx.protos import FunctionProto, NodeProto
from tilework.graph.onnx.refused import NCHWC, refusal
from tilework.graph.onnx.scopes import Scopes
from tilework.graph.onnx.standard import (
    fewest_inputs,
    is_function,
    operators_within,
    strange,
)
from tilework.graph.undecided import undecided_reason
from tilework.index.symbols import Undecided, symbols_of

VISITORS = {**branches.VISITORS, **loops.VISITORS, **sequences.VISITORS}
"""Operators of the standard that are more than values computed from values."""


class Walk(Scopes):
    """Builds the network node by node, and keeps going after a problem to find the others.

    Args:
        b: takes the network's nodes.
        opset: version of the standard operators.
        places: of the model's weight files, if it has a file.
        functions: the model's own, by domain, name and overload.

    Attributes:
        undecided: what decides what nodes become, and differs from run to run.
    """

    def __init__(
        self,
        b: Builder,
        opset: int,
        places: Places | None = None,
        functions: Iterable[FunctionProto] = (),
    ) -> None:
        super().__init__(b, opset, places)
        self._calls = Calls(functions)
        self._problems = Problems()
        self.undecided: list[Undecided] = []
        self._doubts: list[Undecided] = []  # what makes numbers data where none need be known
        self._folding = Folding(self.budget)
        self._upcoming: set[str] = set()
        self._lacks: dict[tuple[str, str, str], list[NodeProto]] = {}

    def graph(self, nodes: Sequence[NodeProto]) -> None:
        """Visit the nodes of the model.

        Raises:
            ValuesNeeded: they can be converted once the values of some inputs are known.
            NetworkError: the graph is corrupt, or some nodes are not supported.
        """
        self._upcoming = {o for n in nodes for o in n.output}
        for node in nodes:
            self.node(node)
        try:
            self._problems.check()
        except NetworkError as e:
            if not self.undecided:
                raise
            raise RangesNeeded(str(e), self.undecided) from e

    def output(self, name: str) -> str:
        """The network's value of an output of the model."""
        if name in self.unoffered:
            op = self.unoffered[name]
            raise NetworkError(f"its output '{name}', a further output of {op}, is unsupported")
        if name in self.lists:
            raise NetworkError(
                f"its output '{name}' is a sequence or an optional value; return its tensors"
            )
        if not self.defined(name):
            raise NetworkError(f"the file is corrupt: its output '{name}' is never computed")
        try:
            return self.value(name)
        except Unsupported as e:
            raise NetworkError(f"its output '{name}': {e}") from e

    def node(self, node: NodeProto) -> None:
        """Convert one node, or note why it cannot be."""
        if any(i in self.unknown for i in node.input):
            self.unknown.update(o for o in node.output if o)
            for n in self._lacking(node):
                self._problems.note(operator_name(n), _where(node), refusal(n.domain, n.op_type))
            return
        try:
            self._visit(node)
        except ConstantNeeded as e:
            self._value_needed(e, node)
        except Unsupported as e:
            self.undecided += _undecided(e)
            self._problem(node, str(e))
        except NetworkError:
            raise
        except MemoryError:
            self._problem(node, "it needs too much memory")
        except RecursionError:
            self._problem(node, "its graphs are nested too deeply")
        except Undecided as e:
            self.undecided.append(e)
            self._problem(node, undecided_reason(e))
        except UnknownExtent as e:
            self._problem(node, str(e))
        except Exception as e:  # whatever a converter makes of a malformed node
            self._problem(node, self._malformed(node, e))

    def _malformed(self, node: NodeProto, e: Exception) -> str:
        """What is to be said of a node that no converter has thought of."""
        least = fewest_inputs(node, self.opset) if node.domain in STANDARD else 0
        if len(node.input) < least:
            return f"it has too few inputs: {len(node.input)} of at least {least}"
        inputs = [i for i in node.input if i in self.values or self.known(i) is not None]
        symbols = symbols_of(n for i in inputs for n in self.extents_of(i))
        if not symbols:
            return f"malformed: {first_line(e)}"
        names = ", ".join(s.name for s in symbols)
        return (
            f"it takes no extents that a run brings, and reads some of {names}; give a number, "
            f"such as --shape {symbols[0].name}=64 ({first_line(e)})"
        )

    def _known(self, node: NodeProto) -> bool:
        """Whether there is a conversion of nodes of this kind."""
        if self._calls.called(node) is not None:
            return True
        if converter(node.domain, node.op_type) is not None:
            return True
        if node.domain not in STANDARD:
            return False
        known = node.op_type in FOLDABLE or node.op_type in VISITORS
        return known or is_function(node.op_type, self.opset)

    def _lacking(self, node: NodeProto) -> list[NodeProto]:
        """The nodes without a conversion that a node stands for: itself, or those within.

        Nobody asks for the branches of an ``If``, of which only one may be taken.
        """
        body = [n for a in node.attribute if a.name == "body" for n in a.g.node]
        if body:
            return [lacking for n in body for lacking in self._lacking(n)]
        key = (node.domain, node.op_type, node.overload)
        if key not in self._lacks:
            self._lacks[key] = []  # while those within are asked: functions may call themselves
            function = self._calls.called(node)
            if not self._known(node):
                self._lacks[key] = [node]
            elif function is not None or converter(node.domain, node.op_type) is None:
                within = operators_within(node.op_type, self.opset)
                within = within if function is None else list(function.node)
                by_name = {operator_name(one): one for n in within for one in self._lacking(n)}
                self._lacks[key] = list(by_name.values())
        return self._lacks[key]

    def _visit(self, node: NodeProto) -> None:
        function = self._calls.called(node)
        standard = function is None and node.domain in STANDARD
        known = node.op_type in FOLDABLE and all(i in self.constants for i in node.input if i)
        refused = refusal(node.domain, node.op_type)
        if standard and refused and not known:
            raise Unsupported(refused)
        if not self._known(node):
            raise Unsupported(refused)
        self._check_inputs(node)
        if standard:
            self._check_attributes(node)
        if self.opset < 7:
            node = modern(self, node)
        if function is not None:
            self._calls.visit(self, function, node)
        elif standard and node.op_type in VISITORS:
            VISITORS[node.op_type](self, node)
        elif node.op_type == "Identity" and node.input[0] in self.lists:
            self.assign(node, [self.lists[node.input[0]]])
        else:
            result = self._result(node)
            if result is not None:
                self._assign(node, result)

    def _check_inputs(self, node: NodeProto) -> None:
        """Check that something defines what a node reads."""
        unoffered = [i for i in node.input if i in self.unoffered]
        if unoffered:
            op = self.unoffered[unoffered[0]]
            raise Unsupported(f"it reads '{unoffered[0]}', an output of {op} that is unsupported")
        lists = [i for i in node.input if i in self.lists]
        if lists and not self._takes_lists(node):
            raise Unsupported(f"it reads '{lists[0]}', which is a sequence")
        missing = [i for i in node.input if i and not self.defined(i)]
        if missing:
            later = missing[0] in self._upcoming
            raise NetworkError(
                f"the file is corrupt: node '{node.name or node.output[0]}' reads '{missing[0]}', "
                + ("which depends on it" if later else "which nothing defines")
            )

    def _check_attributes(self, node: NodeProto) -> None:
        """Check that the standard knows what a node is told, lest it be ignored in silence."""
        names = strange(node, self.opset)
        if names:
            raise Unsupported(f"it has no attribute '{names[0]}' in operator set {self.opset}")

    def _takes_lists(self, node: NodeProto) -> bool:
        known = self._calls.called(node) is not None
        return known or node.op_type in VISITORS or node.op_type == "Identity"

    def _result(self, node: NodeProto) -> Result | None:
        """What the node computes; None if others were visited in its place."""
        convert = converter(node.domain, node.op_type)
        if any(i in self.numbers for i in node.input):
            known = self._computed(node)
            if known is not None:
                return known
        if self._foldable(node):
            try:
                return list(self._folding.fold(node, self.constants, self.opset))
            except NotFolded as e:
                empty = any(self.constants[i].size == 0 for i in node.input if i)
                if convert is None or (failures.strict and not empty):
                    raise Unsupported(f"cannot be evaluated: {first_line(e)}") from e
                if not empty:
                    left_alone(f"evaluating {node.op_type} of constants ('{_where(node)}')", e)
        if convert is None:
            if self._calls.visit_definition(self, node):
                return None
            raise Unsupported("only supported where all inputs are constants")
        return convert(self, node)

    def _computed(self, node: NodeProto) -> Result | None:
        """What a node makes of numbers that follow from extents; None where a run computes it."""
        inputs = [self.known(i) if i else None for i in node.input]
        lacking = any(x is None and i for x, i in zip(inputs, node.input, strict=True))
        if lacking or node.domain not in STANDARD or node.op_type not in KNOWN:
            return None
        try:
            return list(computed(node, inputs, self._folding, self.opset))
        except NotKnown as e:
            self._doubts += _undecided(e)
        except NotFolded:
            pass
        return None

    def _foldable(self, node: NodeProto) -> bool:
        """Whether a node is of constants, and the evaluator means what we do by its operator."""
        if node.domain not in STANDARD or node.op_type not in FOLDABLE or not node.input:
            return False
        if not all(i in self.constants for i in node.input if i):
            return False
        if of_large_bytes(node, self.constants):
            return False
        reduced = node.op_type.startswith("Reduce")
        return not reduced or self.constants[node.input[0]].size > 0

    def _assign(self, node: NodeProto, result: Result) -> None:
        results = result if isinstance(result, list) else [result]
        for output, value in zip_longest(node.output, results):
            if not output:
                continue
            if value is None:
                self.unoffered[output] = node.op_type
            elif isinstance(value, np.ndarray | Numbers):
                self.define(output, value)
            else:
                self.define(output, self.result(node, value))

    # ------------------------------------------------------------ problems

    def _problem(self, node: NodeProto, reason: str) -> None:
        self._problems.note(operator_name(node), _where(node), reason)
        self.unknown.update(o for o in node.output if o)

    def _value_needed(self, e: ConstantNeeded, node: NodeProto) -> None:
        """Note that a constant is needed, and which inputs would make it one."""
        inputs = self.sources_of([e.value])
        small = all(n in self.b.inputs and len(self.b.inputs[n].shape) <= 1 for n in inputs)
        wanted = inputs if inputs and small else None
        doubts = [] if wanted else self._doubts
        why = "; ".join([str(e), *map(undecided_reason, doubts[:1])])
        self._problems.note_value(operator_name(node), _where(node), why, wanted)
        self.undecided += doubts
        self.unknown.update(o for o in node.output if o)


def _undecided(e: BaseException) -> list[Undecided]:
    """The comparison that an error comes of, if one is its cause."""
    cause: BaseException | None = e
    while cause is not None and not isinstance(cause, Undecided):
        cause = cause.__cause__
    return [] if cause is None else [cause]


def _where(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "?")


def operator_name(node: NodeProto) -> str:
    """A node's operator, with its domain if it is no standard one."""
    if node.domain == NCHWC:
        return NCHWC  # what is to be done is the same for all of them
    name = (node.op_type or "an operator without a name")[:LONGEST]
    return name if node.domain in STANDARD else f"{node.domain}.{name}"
