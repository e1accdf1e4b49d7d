"""Visit the nodes of a model of which another engine may run some, and note who can run which."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import RangesNeeded
from tilework.graph.onnx.importer import define_inputs, opset_of
from tilework.graph.onnx.infer import output_types
from tilework.graph.onnx.inputs import Values
from tilework.graph.onnx.leave import Leaving
from tilework.graph.onnx.levels import Nodes
from tilework.graph.onnx.messages import one_line
from tilework.graph.onnx.narrow import TRIES, narrower
from tilework.graph.onnx.operations import HEAVY
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import ModelProto, NodeProto, TypeProto
from tilework.graph.onnx.ranges import Shapes, extent_of, symbols_given
from tilework.graph.onnx.reads import in_order, reads
from tilework.graph.onnx.scopes import initial_constants
from tilework.graph.onnx.types import bound_type, is_ours, type_proto
from tilework.graph.onnx.walk import operator_name
from tilework.graph.operators import ValueType
from tilework.graph.undecided import undecided_reason
from tilework.index.symbols import Symbol, range_of, symbols_of

_MOST = 32
"""Symbols that follow from shapes: a module has 64."""


class Visited:
    """A model whose nodes were visited, and what became of them.

    Args:
        refused: why it is no network of ours.
        at: the same at typical values, where ranges are given.

    Attributes:
        walk: what names mean.
        all: the nodes that must run.
        inputs, outputs: what a run takes and returns, in order.
        given: constants of the file, by name.
    """

    def __init__(
        self,
        model: ModelProto,
        places: Places | None,
        shapes: Shapes,
        values: Values,
        refused: NetworkError,
        at: Visited | None = None,
    ) -> None:
        self._at: Leaving | None = None if at is None else at.walk
        self._ranges: dict[str, Symbol] = {}
        self.walk: Leaving
        self.model, self.places, self.refused = model, places, refused
        forced: set[str] = set()
        for more in range(TRIES, -1, -1):
            self._begin(shapes, values)
            self.all, lists = self._visited(forced)
            forced |= lists  # what is no tensor is handed over by the engine that has made it
            if not lists and not (more and self._narrower()):
                break

    def _narrower(self) -> bool:
        """Narrow the ranges of symbols that follow from shapes, if nodes ask for it."""
        return any([narrower(self._ranges, {}, one) for one in self.walk.undecided])

    def _begin(self, shapes: Shapes, values: Values) -> None:
        """Define constants and inputs."""
        self.left_any = False
        self.refusing: set[int] = set()  # nodes that are left whatever they read
        self.reasons: dict[int, str] = {}  # why nodes are left, by number
        model, graph = self.model, self.model.graph
        self.name = graph.name or "model"
        self.outputs = tuple(o.name for o in graph.output)
        used = {i for n in graph.node for i in reads(n)} | set(self.outputs)
        self.walk = Leaving(
            Builder(self.name), opset_of(model), self.places, model.functions, used, self._infer,
            self._at, self._ranges,
        )  # fmt: skip
        for name, array in initial_constants(graph, self.walk):
            self.walk.define(name, np.array(array))  # a view would keep all bytes of the file
        self.inputs = self._define_inputs(shapes, values)
        self.given = dict(self.walk.constants)

    def _infer(self, walk: Leaving, node: NodeProto) -> dict[str, TypeProto]:
        types = {n: walk.type_of(n) for n in reads(node)}
        return output_types(node, types, walk.constants, self.model)

    def _define_inputs(self, shapes: Shapes, values: Values) -> tuple[str, ...]:
        """Declare the inputs; the names of those that a run takes."""
        inputs = [i for i in self.model.graph.input if i.name not in self.walk.constants]
        others = [i for i in inputs if i.name not in values and not is_ours(i.type)]
        names = {i.name for i in others}
        rest = {n: s for n, s in shapes.items() if n not in names}
        define_inputs(self.walk, [i for i in inputs if i.name not in names], rest, values)
        ranges = symbols_given(shapes)
        for i in others:
            given = shapes.get(i.name)
            shape = None
            if given is not None:
                shape = [extent_of(i.name, n, ranges) if isinstance(n, str) else n for n in given]
            self.walk.types[i.name] = bound_type(i.type, shape, self.walk.texts)
        return tuple(i.name for i in inputs if i.name not in values)

    def _visited(self, forced: set[str]) -> tuple[Nodes, set[str]]:
        """Visit all nodes, and note who runs those that must run.

        Args:
            forced: values that must be left.

        Returns:
            The nodes; and sequences of ours that the other engine reads, or a run returns.
        """
        lists: set[str] = set()
        walk = self.walk
        kinds: dict[int, bool] = {}
        nodes = [*in_order(list(self.model.graph.node))]
        for number, node in enumerate(nodes):
            shaped = all(walk.defined(i) or i not in walk.types for i in reads(node))
            kinds[number] = forced.isdisjoint(node.output) and walk.convert(node)
            if not kinds[number]:
                self.left_any = True
                self.reasons[number] = walk.reason
                lists.update(i for i in reads(node) if i in walk.lists)
                walk.leave(node)
                if shaped and forced.isdisjoint(node.output) and not walk.follows:
                    self.refusing.add(number)
        for node in [m for name in walk.measured for m in self._measuring(name)]:
            kinds[len(nodes)] = False
            nodes.append(node)
        self.nodes = nodes
        if not self.outputs:
            raise NetworkError("the file is corrupt: the network has no outputs")
        for name in self.outputs:
            if name in walk.lists:
                lists.add(name)
            elif not walk.defined(name) and name not in walk.types:
                raise NetworkError(f"the file is corrupt: its output '{name}' is never computed")
        maker = {o: n for n, node in enumerate(nodes) for o in node.output if o}
        live: set[int] = set()
        stack = [*self.outputs, *walk.bearers]
        while stack:
            at = maker.get(name := stack.pop())
            if at is not None and at not in live and name not in walk.constants:
                live.add(at)
                stack += reads(nodes[at])
        running = Nodes()
        place: dict[int, int] = {}
        for number in sorted(live):
            before = {
                maker[i] for i in reads(nodes[number]) if i not in walk.constants and i in maker
            }
            place[number] = len(running.nodes)
            running.nodes.append(nodes[number])
            running.producers.append(sorted(place[b] for b in before))
            running.ours.append(kinds[number])
            if number in self.refusing:
                running.refused[operator_name(nodes[number])] = None
        return running, lists

    def _measuring(self, name: str) -> Iterable[NodeProto]:
        """Nodes that make arrays of whose extents each is one more than a number in a value.

        Numbers that no range has, negative ones and large ones, stay such.
        """
        from onnx import TensorProto, helper

        walk, flat, whole = self.walk, f" {name} flat", f" {name} whole"
        items = walk.measured[name].extents or []
        for n in range(-1, len(items)):
            walk.define(f" {name} {n}", np.array([n], np.int64))
        most = [range_of(extent)[1] + 2 for extent in items]
        for what, numbers in {"one": [1], "none": [0], "most": most}.items():
            walk.define(f" {name} {what}", np.array(numbers, np.float64))
        wide, more, least, least_of = (f" {name} as {n}" for n in ("wide", "more", "least", "few"))
        yield helper.make_node("Reshape", [name, f" {name} -1"], [flat])
        yield helper.make_node("Cast", [flat], [wide], to=TensorProto.DOUBLE)
        yield helper.make_node("Add", [wide, f" {name} one"], [more])
        yield helper.make_node("Max", [more, f" {name} none"], [least])
        yield helper.make_node("Min", [least, f" {name} most"], [least_of])
        yield helper.make_node("Cast", [least_of], [whole], to=TensorProto.INT64)
        for n, extent in enumerate(items):
            one, bearer = f" {name} is {n}", f" {name} as {n}"
            zero = helper.make_tensor("zero", TensorProto.UINT8, [1], [0])
            yield helper.make_node("Gather", [whole, f" {name} {n}"], [one])
            yield helper.make_node("ConstantOfShape", [one], [bearer], value=zero)
            kind = type_proto(ValueType((extent + 1,), "uint8"), walk.texts)
            walk.given(bearer, kind, (bearer,))
            walk.types[one] = type_proto(ValueType((1,), "int64"))
            walk.bearers.append(bearer)

    def require_no_less_than(self, other: Visited) -> None:
        """Refuse ranges over which too much is left.

        Args:
            other: the same at a point.

        Raises:
            RangesNeeded: narrower ranges may do.
            NetworkError: it is something else.
        """
        if any(
            s.name in self._ranges for u in self.walk.undecided for s in symbols_of(u.sides or ())
        ):
            raise NetworkError(
                f"{one_line(self.refused)}; {undecided_reason(self.walk.undecided[0])}"
            )
        if len(self._ranges) > _MOST:
            raise NetworkError(
                f"{one_line(self.refused)}; too many extents differ from run to run"
            )
        if self.walk.undecided:
            raise RangesNeeded(one_line(self.refused), self.walk.undecided) from self.refused
        if not self.left_any:
            raise self.refused
        lost = [n for n in self.reasons if n not in other.reasons]
        nodes = self.nodes
        if any(nodes[n].op_type in HEAVY for n in lost):
            why = f"{operator_name(nodes[lost[0]])} ('{nodes[lost[0]].name}')"
            raise NetworkError(
                f"over ranges more would be left to another engine: {why}: "
                f"{self.reasons[lost[0]]}; {one_line(self.refused)}"
            ) from self.refused
