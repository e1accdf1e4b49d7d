"""What the names of an ONNX graph mean while its nodes are visited, and within nested graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Union

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError
from tilework.frozen import frozen
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import OnnxContext, Unsupported, written
from tilework.graph.onnx.numbers import Numbers
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import GraphProto, NodeProto, TensorProto
from tilework.index.extents import Extent, known_shape

_MOST_EXPANDED = 100_000  # nodes that nested graphs and functions may become, all together
_DEEPEST = 40  # of them within each other


@frozen
class Computed:
    """A value of the network, and the inputs of the model that it is computed from."""

    value: str
    sources: tuple[str, ...]


@frozen
class Listed:
    """A sequence whose length is known, or, without items, an optional value that is not there."""

    items: tuple[Meaning, ...] | None


Meaning = Union["Computed", np.ndarray, Numbers, "Listed"]
"""What a name of the model means; it may be given another name."""


class Scopes(OnnxContext):
    """Names and their meanings, those of nested graphs for as long as these are visited.

    Attributes:
        unknown: values that depend on a problem.
        unoffered: further outputs that nobody may read, and their operators.
        lists: names of sequences and of optional values that are not there.
    """

    def __init__(self, b: Builder, opset: int, places: Places | None = None) -> None:
        super().__init__(b, opset, places)
        self.unknown: set[str] = set()
        self.unoffered: dict[str, str] = {}
        self.lists: dict[str, Listed] = {}
        # what a value is computed from: values, or inputs of the model, which name themselves
        self._sources: dict[str, tuple[str, ...]] = {}
        self._defined: list[str] = []
        self._around: list[str] = []  # functions and nested graphs around the present node
        self._expanded = 0

    def node(self, node: NodeProto) -> None:
        """Convert one node, or note why it cannot be."""
        raise NotImplementedError

    # ------------------------------------------------------------ names

    def input(self, name: str, shape: Iterable[Extent], dtype: str) -> None:
        """Declare an input of the network."""
        self.define(name, Computed(self.b.input(name, tuple(shape), dtype), (name,)))

    def define(self, name: str, meaning: Meaning) -> None:
        """Say what a name means.

        A constant may be defined again, as Paddle's exporter does within loops.

        Raises:
            NetworkError: it means something else already.
        """
        if self.defined(name):
            if isinstance(meaning, np.ndarray) and name in self.constants:
                known = self.constants[name]
                if known.dtype == meaning.dtype and np.array_equal(known, meaning):
                    return
            raise NetworkError(f"the file is corrupt: '{name}' is defined twice")
        self._defined.append(name)
        if isinstance(meaning, np.ndarray):
            self.constants[name] = meaning
        elif isinstance(meaning, Numbers):
            self.numbers[name] = meaning
        elif isinstance(meaning, Listed):
            self.lists[name] = meaning
        else:
            self.values[name] = meaning.value
            kind = self.b.types[meaning.value]
            if meaning.value in self.b.constants:
                self.constants[name] = self.b.constants[meaning.value]
            elif 0 in kind.shape and all(isinstance(n, int) for n in kind.shape):  # all are equal
                self.constants[name] = np.empty(known_shape(kind.shape), numpy_dtype(kind.dtype))
            elif meaning.sources:
                self._sources[name] = meaning.sources

    def defined(self, name: str) -> bool:
        """Whether a name means anything."""
        known = name in self.values or name in self.constants
        return known or name in self.numbers or name in self.lists

    def meaning(self, name: str) -> Meaning:
        """What a name means, so that another name can mean the same.

        Raises:
            KeyError: it means nothing.
        """
        if name in self.constants:
            return self.constants[name]
        if name in self.numbers:
            return self.numbers[name]
        if name in self.lists:
            return self.lists[name]
        return Computed(self.values[name], self.sources_of([name]))

    def sources_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The inputs that some values are computed from, by name."""
        stack = list(names)
        seen = set(stack)
        while stack:
            before = self._sources.get(stack.pop(), ())
            stack += [n for n in before if n not in seen]
            seen.update(before)
        return tuple(sorted(n for n in seen if self._sources.get(n) == (n,)))

    def known_value(self, meaning: Meaning) -> str:
        """What a name means as a value of the network.

        Raises:
            Unsupported: it is a sequence.
        """
        if isinstance(meaning, Listed):
            raise Unsupported("an element is a sequence, or is not there")
        if isinstance(meaning, Computed):
            return meaning.value
        if isinstance(meaning, Numbers):
            return written(self.b, meaning, "numbers")
        return self.b.constant(meaning)

    def assign(self, node: NodeProto, meanings: Iterable[Meaning | None]) -> None:
        """Say what the outputs of a node mean; None: they depend on a problem."""
        for output, meaning in zip_longest(node.output, meanings):
            if not output:
                continue
            if meaning is None:
                self.unknown.add(output)
            else:
                self.define(output, meaning)

    def result(self, node: NodeProto, value: str) -> Computed:
        """A value of the network that is computed from the inputs of a node."""
        return Computed(value, tuple(dict.fromkeys(i for i in node.input if i in self._sources)))

    # ------------------------------------------------------------ within others

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        """The array of a tensor in the file; functions and branches bring theirs each time."""
        array = super().tensor(tensor)
        if self._around and not self.budget.take(array.nbytes):
            raise Unsupported("the constants of functions and branches are too large together")
        return array

    @contextlib.contextmanager
    def within(self, label: str, nodes: int) -> Iterator[str]:
        """While the nodes of a function or of a nested graph are visited.

        Yields:
            A number, as a text, that no other visit has.

        Raises:
            Unsupported: it calls itself, or it all becomes too many nodes.
        """
        if label and label in self._around:
            raise Unsupported("it calls itself")
        self._expanded += nodes
        if self._expanded > _MOST_EXPANDED:
            raise Unsupported(f"functions and branches become over {_MOST_EXPANDED} nodes")
        if len(self._around) >= _DEEPEST:
            raise Unsupported(f"functions and branches are over {_DEEPEST} deep")
        self._around.append(label)
        try:
            yield str(self._expanded)
        finally:
            self._around.pop()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """While something is read that all calls share: the file pays for it."""
        around, self._around = self._around, []
        try:
            yield
        finally:
            self._around = around

    @contextlib.contextmanager
    def block(self, nodes: int) -> Iterator[None]:
        """While a nested graph is visited: what it defines is forgotten at its end.

        Others may use the names again: the other branch, the next iteration.
        """
        before, unknown = len(self._defined), set(self.unknown)
        try:
            with self.within("", nodes):
                yield
        finally:
            self.forget(before)
            self.unknown = unknown

    def forget(self, before: int) -> None:
        """Forget all names but the first ``before`` that were defined."""
        places: tuple[dict[str, Any], ...] = (
            self.values, self.constants, self.numbers, self.lists, self._sources
        )  # fmt: skip
        for name in self._defined[before:]:
            for place in places:
                place.pop(name, None)
        del self._defined[before:]


def initial_constants(graph: GraphProto, c: OnnxContext) -> Iterable[tuple[str, np.ndarray]]:
    """The constants that a graph brings, by name."""
    for tensor in graph.initializer:
        yield tensor.name, c.tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, c.sparse_tensor(sparse)
