"""Visiting the nodes of a graph and leaving those that have no conversion to another engine.

What a left node computes is an input of the network, like any other, if its type and extents are
known before a run, as numbers or as those that inputs have. Else what reads it is left as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import ConstantNeeded
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.problems import Problems
from tilework.graph.onnx.protos import FunctionProto, NodeProto, TypeProto
from tilework.graph.onnx.reads import reads
from tilework.graph.onnx.scopes import Computed
from tilework.graph.onnx.types import array_type, known_type, type_proto
from tilework.graph.onnx.walk import Walk
from tilework.graph.operators.base import ANY, ValueType
from tilework.index.extents import Extent, typicals

Infer = Callable[["Leaving", NodeProto], dict[str, TypeProto]]


class Leaving(Walk):
    """A walk that leaves what it cannot convert.

    Args:
        used: names that somebody reads.
        infer: the types of a left node's outputs, as far as they are known.

    Attributes:
        types: of what left nodes compute, and of inputs that no network can have; by name.
        texts: extents that a run brings, by what stands for them in types.
        reason: why the last node that could not be converted could not be.
    """

    def __init__(
        self,
        b: Builder,
        opset: int,
        places: Places | None,
        functions: Iterable[FunctionProto],
        used: Collection[str],
        infer: Infer,
    ) -> None:
        super().__init__(b, opset, places, functions)
        self.types: dict[str, TypeProto] = {}
        self.texts: dict[str, Extent] = {}
        self.reason = ""
        self._used, self._infer = used, infer

    def convert(self, node: NodeProto) -> bool:
        """Convert a node; whether that was possible. If not, all is as before.

        Raises:
            NetworkError: the graph is corrupt.
        """
        self.reason = ""
        missing = [i for i in reads(node) if not self.defined(i)]
        undefined = [i for i in missing if i not in self.types]
        if undefined:
            raise NetworkError(
                f"the file is corrupt: node '{node.name or node.op_type}' reads '{undefined[0]}', "
                "which nothing before it defines"
            )
        if missing:
            return False
        defined, expanded = len(self._defined), self._expanded
        self.node(node)
        good = not self._problems.found
        good &= not any(o in self.unoffered and o in self._used for o in node.output)
        good &= all(self._fits(o) for o in node.output)
        if not good:
            self.reason = next((why for _, _, why in self._problems.found), "")
            self.forget(defined)
            for name in node.output:
                self.unoffered.pop(name, None)
            self._expanded = expanded
            self._problems = Problems()
            self.unknown.clear()
        elif any(o in self.lists for o in node.output):  # the other engine may have to know
            self.types.update(self._infer(self, node))
        return good

    def leave(self, node: NodeProto) -> None:
        """Take a node's outputs for inputs of the network where they can be."""
        types = self._infer(self, node)
        for name in (o for o in node.output if o):
            self.given(name, types[name])

    def given(self, name: str, kind: TypeProto) -> None:
        """Declare a value that is computed elsewhere."""
        self.types[name] = kind
        known = known_type(kind, self.texts)
        if known is not None and known.dtype in ANY:
            own = f" {name}"  # no node of ours is called so
            self.define(name, Computed(self.b.input(own, *known), (name,)))

    def type_of(self, name: str) -> TypeProto:
        """What is known of a value's type; an empty one if nothing is."""
        import onnx

        if name in self.types:
            return self.types[name]
        if name in self.values:
            return type_proto(self.b.types[self.values[name]], self.texts)
        if name in self.constants:
            return array_type(self.constants[name])
        if name in self.numbers:
            known = self.numbers[name]
            return type_proto(ValueType(known.shape, known.dtype), self.texts)
        return onnx.TypeProto()

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The extents of a value, typical ones of a range; None if they are not known."""
        if name in self.values or name in self.constants or name in self.numbers:
            return typicals(self.shape(name))
        known = known_type(self.types[name], self.texts) if name in self.types else None
        return None if known is None else typicals(known.shape)

    def _value_needed(self, e: ConstantNeeded, node: NodeProto) -> None:
        """As in any walk; but what data decide no range makes a constant."""
        before = len(self.undecided)
        super()._value_needed(e, node)
        if self.sources_of([e.value]):
            del self.undecided[before:]

    def _fits(self, name: str) -> bool:
        """Whether a result, if it is a constant, is one that the other engine knows as well."""
        return name not in self.constants or self.constants[name].dtype != np.dtype(object)
