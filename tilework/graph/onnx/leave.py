"""Visiting the nodes of a graph and leaving those that have no conversion to another engine.

What a left node computes is an input of the network, like any other, if its type and extents are
known before a run, as numbers or as those that inputs have. Else what reads it is left as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from tilework.dtypes import is_integer
from tilework.errors import NetworkError
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import ConstantNeeded
from tilework.graph.onnx.convert.random import CONVERTERS as RANDOM
from tilework.graph.onnx.numbers import Numbers
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.problems import Problems
from tilework.graph.onnx.protos import FunctionProto, NodeProto, TypeProto
from tilework.graph.onnx.reads import reads, within
from tilework.graph.onnx.scopes import Computed
from tilework.graph.onnx.types import array_type, extents_in, known_type, type_proto, type_text
from tilework.graph.onnx.walk import Walk
from tilework.graph.operators.base import ANY, ValueType
from tilework.index.extents import Extent, known_shape, typicals
from tilework.index.symbols import Symbol, Symbolic, Undecided, is_static, symbols_of

_FEW = 16
"""Numbers that may each be a symbol."""
_SIZED = frozenset(("Expand", "Pad", "Resize", "Slice", "Tile", "TopK", "Upsample"))
"""Operators whose extents follow from those of the first input, and from what the others hold."""
_MOST = 1024
"""Up to which number a symbol is taken to go that follows from shapes, at least."""

Infer = Callable[["Leaving", NodeProto], dict[str, TypeProto]]


class Leaving(Walk):
    """A walk that leaves what it cannot convert.

    Args:
        used: names that somebody reads.
        infer: the types of a left node's outputs, as far as they are known.
        at: the same walk at typical values, where ranges are given: extents that follow from
            shapes by other than whole polynomials get symbols of their own then.
        ranges: of these symbols, as far as they were narrowed; learns those that are made.

    Attributes:
        types: of what left nodes compute, and of inputs that no network can have; by name.
        texts: extents that a run brings, by what stands for them in types.
        reason: why the last node that could not be converted could not be.
        follows: whether that is because what it computes has symbols of its own.
        measured: numbers that follow from shapes so, each a symbol, by the value that holds them.
        bearers: values whose extents are such symbols.
    """

    def __init__(
        self,
        b: Builder,
        opset: int,
        places: Places | None,
        functions: Iterable[FunctionProto],
        used: Collection[str],
        infer: Infer,
        at: Leaving | None,
        ranges: dict[str, Symbol],
    ) -> None:
        super().__init__(b, opset, places, functions)
        self.types: dict[str, TypeProto] = {}
        self.texts: dict[str, Extent] = {}
        self.reason, self.follows = "", False
        self._decided = 0
        self.measured: dict[str, Numbers] = {}
        self.bearers: list[str] = []
        self._at, self._ranges = at, ranges
        self._used, self._infer = used, infer

    def convert(self, node: NodeProto) -> bool:
        """Convert a node; whether that was possible. If not, all is as before.

        Raises:
            NetworkError: the graph is corrupt.
        """
        self.reason, self.follows = "", False
        self._decided = len(self.undecided)
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
        good &= not any(o in self.values and _of_none(self.shape(o)) for o in node.output)
        if good and any(self._measurable(o) for o in node.output):
            good, self.follows = False, True
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
        of_shapes = self._of_shapes(node)
        sized = of_shapes or (
            node.op_type in _SIZED
            and all(self.defined(i) for i in reads(node))
            and self._sized_by([i for i in node.input[1:] if i])
        )
        for name in (o for o in node.output if o):
            if sized:
                types[name] = self._with_symbols(name, types[name], of_shapes)
            self.given(name, types[name], () if of_shapes else (name,))
        if sized and all(self.defined(o) for o in node.output if o):
            open_ = self.undecided[self._decided :]
            if of_shapes or all(self._follows_from_shapes(one) for one in open_):
                del self.undecided[self._decided :]  # each run computes what it becomes

    def given(self, name: str, kind: TypeProto, sources: tuple[str, ...]) -> None:
        """Declare a value that is computed elsewhere, of values that have some sources."""
        self.types[name] = kind
        known = known_type(kind, self.texts)
        if name in self.measured:
            self.define(name, self.measured[name])
        elif known is not None and known.dtype in ANY and not _of_none(known.shape):
            own = f" {name}"  # no node of ours is called so
            self.define(name, Computed(self.b.input(own, *known), sources))

    def _of_shapes(self, node: NodeProto) -> bool:
        """Whether what a node computes follows from shapes alone."""
        random = any(n.op_type in RANDOM for n in within([node]))
        return self._sized_by(reads(node)) and not random

    def _sized_by(self, names: Sequence[str]) -> bool:
        """Whether values follow from shapes alone, where that is asked."""
        known = self._at is not None and all(self.defined(i) for i in names)
        return known and not self.sources_of(names)

    def _follows_from_shapes(self, one: Undecided) -> bool:
        """Whether a comparison is of a symbol that follows from shapes: no given range decides."""
        return any(s.name in self._ranges for s in symbols_of(one.sides or ()))

    def _measurable(self, name: str) -> bool:
        """Whether a value is a few numbers that a run computes from shapes alone."""
        if self._at is None or name not in self.values or name in self.constants:
            return False
        kind = self.b.types[self.values[name]]
        few = is_static(kind.shape) and math.prod(known_shape(kind.shape)) <= _FEW
        return few and name in self._at.constants and not self.sources_of([name])

    def _with_symbols(self, name: str, kind: TypeProto, itself: bool) -> TypeProto:
        """The type of a value with symbols for extents that are not known, and follow from shapes.

        Args:
            itself: it follows from shapes, too: a few whole numbers are symbols themselves.
        """
        shape = None if self._at is None else self._at.shape_of(name)
        dtype = type_text(kind)
        if self._at is None or shape is None or dtype not in ANY:
            return kind
        known = known_type(kind, self.texts)
        if known is None:
            dims = extents_in(kind, self.texts) or (None,) * len(shape)
            extents = [
                self._symbol(f"{name}_{d}", n) if extent is None else extent
                for d, (n, extent) in enumerate(zip(shape, dims, strict=True))
            ]
            known = ValueType(tuple(extents), dtype)
            self.bearers.append(name)
        values = self._at.constants.get(name)
        few = values is not None and 0 < values.size <= _FEW and values.min() >= 0
        if values is not None and few and itself and is_integer(dtype) and is_static(known.shape):
            items = [self._symbol(f"{name}_{d}", int(n)) for d, n in enumerate(values.flat)]
            self.measured[name] = Numbers(tuple(items), values.shape, dtype)
        return type_proto(known, self.texts)

    def _symbol(self, name: str, seen: int) -> Extent:
        """A symbol for what follows from shapes, and was a number at typical values."""
        fresh = Symbol(name, min(seen, 1), max(_MOST, 4 * seen), (seen,))
        return Symbolic.of({(self._ranges.setdefault(name, fresh),): 1})

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


def _of_none(shape: Sequence[Extent]) -> bool:
    """Whether a value never has elements, and yet is not the same in every run."""
    return 0 in shape and not is_static(shape)
