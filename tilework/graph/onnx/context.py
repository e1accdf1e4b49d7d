"""The state of an ONNX import: what its names mean so far, and helpers to read its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder
from tilework.graph.onnx.budget import Budget
from tilework.graph.onnx.numbers import Known, Numbers
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import NodeProto, SparseTensorProto, TensorProto, attribute_value
from tilework.graph.onnx.shares import Share
from tilework.graph.onnx.tensors import read_sparse, read_tensor
from tilework.graph.operators.base import ANY
from tilework.index.extents import Extent, known_shape
from tilework.index.symbols import Undecided


class Unsupported(Exception):
    """An operator is used in a way that has no conversion; the message says which."""


class ConstantNeeded(Unsupported):
    """An operator needs to know ``value`` at import, which is computed when the network runs."""

    def __init__(self, value: str, what: str) -> None:
        super().__init__(f"{what} must be a constant")
        self.value = value


class ShapesRefused(NetworkError):
    """The extents that the caller gives do not fit the declared inputs."""


class ValuesNeeded(NetworkError):
    """Shapes within the network depend on the values of inputs, which must be given.

    Attributes:
        inputs: names of those inputs; each has at most one dimension.
    """

    def __init__(self, message: str, inputs: Sequence[str]) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)


class RangesNeeded(NetworkError):
    """What some nodes become differs from run to run.

    Attributes:
        comparisons: what decides it.
    """

    def __init__(self, message: str, comparisons: Sequence[Undecided]) -> None:
        super().__init__(message)
        self.comparisons = tuple(comparisons)


class OnnxContext:
    """The network under construction, and what the ONNX names mean in it.

    Attributes:
        opset: version of the standard operators.
        places: of the model's weight files; None if the model came from memory.
        budget: pays for what the import makes.
        values: ONNX name -> value of the network.
        constants: ONNX name -> array known at import; becomes a value when a node reads it.
        numbers: ONNX name -> what follows from extents that a run brings; the same.
    """

    def __init__(self, b: Builder, opset: int, places: Places | None = None) -> None:
        self.b = b
        self.opset = opset
        self.places = places
        self.budget = Budget()
        self.values: dict[str, str] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.numbers: dict[str, Numbers] = {}

    def value(self, name: str) -> str:
        """The network value of an ONNX name."""
        if name not in self.values and name in self.numbers:
            self.values[name] = written(self.b, self.numbers[name], name)
        if name not in self.values:
            array = self.constants[name]
            if array.dtype.name not in ANY:
                raise Unsupported(f"constant '{name}' is {array.dtype}, which is not supported")
            self.values[name] = self.b.constant(array, name)
        return self.values[name]

    def array(self, name: str, what: str) -> np.ndarray:
        """The array behind an ONNX name that must be constant."""
        if name in self.numbers:
            symbols = [s.name for s in self.numbers[name].symbols]
            raise Unsupported(
                f"{what} must be a constant, and depends on {', '.join(symbols)}; give "
                f"{'it a number' if len(symbols) == 1 else 'them numbers'}, such as "
                f"--shape {symbols[0]}=64"
            )
        if name not in self.constants:
            raise ConstantNeeded(name, what)
        return self.constants[name]

    def ints(self, name: str, what: str) -> list[int]:
        """A constant list of integers."""
        return [int(v) for v in self.array(name, what).reshape(-1)]

    def extents(self, name: str, what: str) -> list[Extent]:
        """A list of integers that are constants, or follow from extents."""
        known = self.numbers[name].extents if name in self.numbers else None
        return [*self.ints(name, what)] if known is None else known

    def known(self, name: str) -> Known | None:
        """What is known of an ONNX name at import; None if a run computes it."""
        return self.constants.get(name, self.numbers.get(name))

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        """The array of a tensor in the file."""
        return read_tensor(tensor, self.places, self.budget)

    def sparse_tensor(self, tensor: SparseTensorProto) -> np.ndarray:
        """The dense array of a sparse tensor in the file."""
        return read_sparse(tensor, self.places, self.budget)

    def rank(self, name: str) -> int:
        """Number of dimensions of an ONNX name."""
        return len(self.shape(name))

    def shape(self, name: str) -> tuple[Extent, ...]:
        """Extents of an ONNX name."""
        if name in self.values:
            return self.b.shape(self.values[name])
        if name in self.numbers:
            return self.numbers[name].shape
        return self.constants[name].shape

    def sizes(self, name: str) -> tuple[int, ...]:
        """The same as numbers, where nothing else will do.

        Raises:
            UnknownExtent: a run brings some.
        """
        return known_shape(self.shape(name))

    def extents_of(self, name: str) -> tuple[Extent, ...]:
        """The extents that an ONNX name has, or holds."""
        held = self.numbers[name].extents if name in self.numbers else None
        return (*self.shape(name), *(held or ()))

    def dtype(self, name: str) -> str:
        """Element type of an ONNX name."""
        if name in self.values:
            return self.b.types[self.values[name]].dtype
        return self.constants[name].dtype.name

    def op(self, op: str, *inputs: str, name: str | None = None, **attrs: Any) -> str:
        """Append a node to the network; inputs that do not fit are a problem of this node."""
        try:
            return self.b.op(op, *inputs, name=name, **attrs)
        except NetworkError as e:
            raise Unsupported(str(e)) from e


def written(b: Builder, x: Numbers, name: str) -> str:
    """Numbers as a value of the network, which a run computes.

    Args:
        b: takes the nodes.
        x: the numbers.
        name: of the value, as far as it is free.
    """
    parts = []
    for item in x.items:
        whole = item.whole if isinstance(item, Share) else item
        attrs = {"shape": (1,), "axis": 0, "start": whole, "step": 0, "dtype": x.dtype}
        one = b.op("arange", name=name, **attrs)
        if isinstance(item, Share) and item.by != 1:
            by = np.asarray(item.by).astype(x.dtype)
            one = b.op("divide", one, b.constant(by, "scalar"), name=name)
        parts.append(one)
    value = parts[0] if len(parts) == 1 else b.op("concat", *parts, name=name, axis=0)
    return value if x.shape == (len(parts),) else b.op("reshape", value, name=name, shape=x.shape)


# what the node's first output is, or each of its outputs (None: not offered)
Result = Union[str, np.ndarray, Numbers, "list[str | np.ndarray | Numbers | None]"]
Converter = Callable[[OnnxContext, NodeProto], Result]


def attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node, texts decoded."""
    result = {a.name: attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in result.items()}


def optional(node: NodeProto, i: int) -> str:
    """Name of the i-th input, empty if it is left out."""
    return node.input[i] if i < len(node.input) else ""
