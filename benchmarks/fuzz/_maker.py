"""A random model, made node by node: each new node is run alone by ONNX Runtime first.

So every model is valid, its values are finite and of moderate size, and operators need no
description beyond what to try.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from _case import Case
from _peer import PeerError, run_peer
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

MOST = 20_000
LARGEST = 1e4
FLOATS = ("float32", "float64", "float16")
NUMBERS = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "int16", "uint32")


@dataclass(frozen=True, eq=False)
class Val:
    """A value of the model and what it is for the inputs that were drawn."""

    name: str
    array: Array

    @property
    def kind(self) -> str:
        """Its element type."""
        return self.array.dtype.name

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.array.ndim


class Skip(Exception):
    """The operator that was drawn finds no inputs here."""


class Maker:
    """What operators are given to draw from.

    Attributes:
        r: the model's random numbers.
        opset: its operator set.
        empty: extents may be 0.
    """

    def __init__(self, seed: int) -> None:
        self.r = np.random.default_rng(seed)
        self.opset = int(self.r.choice([9, 11, 12, 13, 15, 17, 18, 19, 20, 21, 22]))
        self.nodes: list[onnx.NodeProto] = []
        self.values: list[Val] = []
        self.inputs: list[Val] = []
        self.constants: list[Val] = []
        self.empty = self.chance(0.05)
        self._count = 0

    # --- numbers -----------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        """True with this probability."""
        return bool(self.r.random() < p)

    def int(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.r.integers(low, high + 1))

    def pick(self, of: Sequence[Any]) -> Any:
        """One of a sequence."""
        if not of:
            raise Skip
        return of[int(self.r.integers(len(of)))]

    def extent(self) -> int:
        """An extent: small, or about a vector's width."""
        if self.empty and self.chance(0.2):
            return 0
        return int(self.pick([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 33]))

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        """A shape of some dimensions and not too many elements."""
        while True:
            shape = tuple(self.extent() for _ in range(self.int(low, high)))
            if np.prod(shape, dtype=np.int64) <= MOST // 4:
                return shape

    def numbers(self, shape: Sequence[int], kind: str) -> Array:
        """Random elements; of floats often some that are equal, zero or whole."""
        if kind == "bool":
            return np.asarray(self.r.integers(0, 2, shape), bool)
        if kind.startswith("uint"):
            return np.asarray(self.r.integers(0, self.pick([3, 12, 120]), shape), kind)
        if kind.startswith("int"):
            top = self.pick([3, 12, 120])
            return np.asarray(self.r.integers(-top, top, shape), kind)
        array = np.asarray(self.r.standard_normal(shape))
        if self.chance(0.2):
            array = np.round(2 * array) / 2
        if self.chance(0.1):
            array = np.abs(array)
        return np.asarray(array, kind)

    # --- values ------------------------------------------------------------------------------

    def any(self, *kinds: str, ranks: Sequence[int] = (0, 1, 2, 3, 4, 5, 6)) -> Val:
        """A value there is, the latest ones rather; sometimes a new input."""
        found = [v for v in self.values if v.kind in kinds and v.rank in ranks]
        if not found or self.chance(0.1):
            if found and len(self.inputs) > 4:
                return self.pick(found)
            if not found and not self.chance(0.5):
                raise Skip
            kind = kinds[0] if self.chance(0.7) else self.pick(kinds)
            low, high = min(ranks), min(max(ranks), 5)
            return self.input(self.numbers(self.shape(low, high), kind))
        return self.pick(found[-4:] if self.chance(0.7) else found)

    def input(self, array: Array) -> Val:
        """A new input."""
        value = Val(self._name("x"), array)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: Array) -> Val:
        """A new constant; it is no operand of later nodes unless it is given to them."""
        value = Val(self._name("c"), np.asarray(array))
        self.constants.append(value)
        return value

    def ints(self, *numbers: int) -> Val:
        """A constant of whole numbers."""
        return self.constant(np.array(numbers, np.int64))

    def other(self, shape: Sequence[int], kind: str, constant: float = 0.5) -> Val:
        """A value of a shape and type: one there is, or a constant, or an input."""
        found = [v for v in self.values if v.kind == kind and v.array.shape == tuple(shape)]
        if found and self.chance(0.6):
            return self.pick(found)
        array = self.numbers(shape, kind)
        return self.constant(array) if self.chance(constant) else self.input(array)

    def fitting(self, v: Val) -> Val:
        """An operand that broadcasts with a value."""
        found = [w for w in self.values if w.kind == v.kind and _broadcast(w, v)]
        if found and self.chance(0.5):
            return self.pick(found)
        shape = [n if self.chance(0.6) else 1 for n in v.array.shape]
        while shape and self.chance(0.25):
            shape.pop(0)
        if len(shape) < 5 and self.chance(0.08):
            shape.insert(0, self.int(1, 3)) if len(shape) == v.rank else None
        return self.other(shape, v.kind)

    def axis(self, v: Val, negative: bool = True) -> int:
        """A dimension of a value."""
        if not v.rank:
            raise Skip
        return self.int(-v.rank if negative else 0, v.rank - 1)

    def axes(self, v: Val, least: int = 1) -> list[int]:
        """Some dimensions of a value, in order."""
        if v.rank < least:
            raise Skip
        count = self.int(least, v.rank)
        some = sorted(self.r.permutation(v.rank)[:count].tolist())
        return [a - v.rank if self.chance(0.3) else a for a in some]

    # --- nodes -------------------------------------------------------------------------------

    def node(
        self, op: str, *inputs: Val | None, outputs: int = 1, keep: bool = True, **attributes: Any
    ) -> list[Val]:
        """Add a node if ONNX Runtime runs it and its results are good.

        Raises:
            Skip: it does not, or they are not.
        """
        names = [self._name("v") for _ in range(outputs)]
        node = helper.make_node(op, [v.name if v else "" for v in inputs], names, **attributes)
        given = list(dict.fromkeys(v.name for v in inputs if v))
        arrays = {v.name: v.array for v in inputs if v}
        fixed = {v.name for v in self.constants}
        graph = helper.make_graph(
            [node],
            "one",
            [_info(n, arrays[n]) for n in given if n not in fixed],
            [onnx.ValueInfoProto(name=n) for n in names],
            [numpy_helper.from_array(arrays[n], n) for n in given if n in fixed],
        )
        model = self.model_of(graph)
        try:
            results = run_peer(model, {n: arrays[n] for n in given if n not in fixed})
        except PeerError as e:
            raise Skip(str(e)) from e
        if not all(_good(array, self.empty) for array in results):
            raise Skip
        made = [Val(n, a) for n, a in zip(names, results, strict=True)]
        self.nodes.append(node)
        self.values.extend(made)
        return made

    def model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        """A model of the drawn operator set."""
        domains = dict.fromkeys(n.domain for n in graph.node)
        opsets = [
            helper.make_opsetid(d, 1 if d else self.opset) for d in ("", *filter(None, domains))
        ]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=10 if self.opset > 20 else 8
        )

    def case(self) -> Case:
        """The model: what nobody reads is an output, and sometimes more."""
        read = {n for node in self.nodes for n in node.input}
        made = [n for node in self.nodes for n in node.output]
        outputs = [n for n in made if n not in read or self.chance(0.08)]
        inputs = [v for v in self.inputs if v.name in read]
        constants = [v for v in self.constants if v.name in read]
        graph = helper.make_graph(
            self.nodes,
            "fuzzed",
            [_info(v.name, v.array) for v in inputs],
            [onnx.ValueInfoProto(name=n) for n in outputs],
            [numpy_helper.from_array(v.array, v.name) for v in constants],
        )
        return Case(self.model_of(graph), {v.name: v.array for v in inputs})

    def _name(self, begin: str) -> str:
        self._count += 1
        return f"{begin}{self._count}"


def make(seed: int, operators: Sequence[Callable[[Maker], object]]) -> Case:
    """A random model of up to a dozen nodes."""
    m = Maker(seed)
    wanted = m.int(1, 12)
    kinds = ["float32"] * 6 + ["float64", "float16", "int32", "int64", "int8", "uint8", "bool"]
    for _ in range(m.int(1, 2)):
        m.input(m.numbers(m.shape(1, 4), m.pick(kinds)))
    misses = 0
    while len(m.nodes) < wanted and (misses < 40 or not m.nodes):
        before = len(m.inputs), len(m.constants), len(m.values), len(m.nodes)
        try:
            m.pick(operators)(m)
        except (Skip, ValueError, IndexError):
            misses += 1
            if len(m.nodes) == before[3]:
                del m.inputs[before[0] :], m.constants[before[1] :], m.values[before[2] :]
    return m.case()


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _broadcast(a: Val, b: Val) -> bool:
    try:
        shape = np.broadcast_shapes(a.array.shape, b.array.shape)
    except ValueError:
        return False
    return bool(np.prod(shape, dtype=np.int64) <= MOST)


def _good(array: Array, empty: bool) -> bool:
    if (array.size == 0 and not empty) or array.size > MOST or array.ndim > 6:
        return False
    if array.dtype.kind in "fV":
        wide = array.astype(np.float64)
        return bool(np.isfinite(wide).all() and (np.abs(wide) < LARGEST).all())
    return True
