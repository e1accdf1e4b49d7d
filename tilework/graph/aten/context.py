"""The state of a translation: what the nodes of an FX graph mean so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError
from tilework.graph.aten.dtypes import array_of, dtype_name
from tilework.graph.ir import Builder
from tilework.graph.operators.base import Shape
from tilework.index.extents import Extent, known_shape, most
from tilework.index.symbols import Symbolic

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


class Unsupported(Exception):
    """An operator is used in a way that has no conversion; the message says which."""


class Value(str):
    """The name of a value of the network, apart from texts that are arguments of an operator."""

    __slots__ = ()


class AtenContext:
    """The network under construction.

    Converters get a node's arguments with every node replaced by what it means: a `Value`, a
    tensor that is known now, a number, an extent that a run decides, or a tuple of these.

    Args:
        b: takes the nodes.
        extent: what a size of an example value is.

    Attributes:
        node: that is translated now.
    """

    node: Node

    def __init__(self, b: Builder, extent: Callable[[Any], Extent] = int) -> None:
        self.b, self.extent = b, extent
        self._constants: dict[tuple[int, str], tuple[object, str]] = {}

    # ------------------------------------------------------------ reading

    def shape(self, x: Any) -> Shape:
        """Extents of a value, a tensor or a number."""
        if isinstance(x, Value):
            return self.b.shape(x)
        return tuple(getattr(x, "shape", ()))

    def rank(self, x: Any) -> int:
        """Number of dimensions."""
        return len(self.shape(x))

    def dtype(self, x: Value) -> str:
        """Element type of a value."""
        return self.b.types[x].dtype

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; a scalar has one dimension to name.

        Raises:
            Unsupported: there is no such dimension.
        """
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise Unsupported(f"dimension {axis} does not exist: there are {rank}")
        return axis % max(rank, 1)

    def axes(self, axes: Any, rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front, in order; none given: all."""
        if axes is None or axes == []:
            return tuple(range(rank))
        given = [axes] if isinstance(axes, int) else axes
        return tuple(sorted(self.axis(d, rank) for d in given)) if rank else ()

    # ------------------------------------------------------------ values

    def value(self, x: Any, dtype: str | None = None) -> Value:
        """``x`` as a value of the network, of element type ``dtype`` if one is given.

        Raises:
            Unsupported: it is nothing that networks have.
        """
        if isinstance(x, Value):
            return self.cast(x, dtype or self.dtype(x))
        if isinstance(x, (bool, int, float)):
            return self.number(x, dtype or "float32")
        if isinstance(x, Symbolic):
            attrs = {"shape": (), "axis": 0, "start": x, "step": 0, "dtype": "int64"}
            return self.cast(self.op("arange", **attrs), dtype or "int64")
        if hasattr(x, "stride"):
            return self._tensor(x, dtype)
        raise Unsupported(f"an argument is a {type(x).__name__}")

    def number(self, x: float, dtype: str) -> Value:
        """A constant of rank 0."""
        kind = numpy_dtype(dtype)
        if isinstance(x, complex):
            raise Unsupported("complex numbers")
        with np.errstate(all="ignore"):
            if dtype != "bool" and not dtype.startswith(("float", "bfloat")):
                if not float(x).is_integer():
                    raise Unsupported(f"the number {x} as {dtype}")
                array = np.asarray(int(x) & (2 ** (8 * kind.itemsize) - 1), np.uint64)
                return self.constant(array.astype(kind), "scalar")
            return self.constant(np.asarray(x).astype(kind), "scalar")

    def constant(self, array: NDArray[Any], name: str = "const") -> Value:
        """A constant of the network."""
        return Value(self.b.constant(array, name))

    def _tensor(self, x: torch.Tensor, dtype: str | None) -> Value:
        own = dtype_name(x.dtype)
        if own is None:
            raise Unsupported(f"element type {x.dtype}")
        if x.is_sparse or x.device.type != "cpu":
            raise Unsupported("a constant is sparse, or not in the CPU's memory")
        key = (id(x), dtype or own)
        if key not in self._constants:
            once = tuple(slice(0, 1) if s == 0 else slice(None) for s in x.stride())
            array = array_of(x[once]) if once else array_of(x)
            if dtype is not None and dtype != own:
                array = _converted(array, dtype)
            y = self.constant(array)
            if array.shape != tuple(x.shape):
                y = self.op("expand", y, shape=tuple(x.shape))
            self._constants[key] = (x, y)  # the tensor is kept, so that its id stays its own
        return Value(self._constants[key][1])

    def known(self, x: Any) -> NDArray[Any] | None:
        """The array of a constant value; None for what is computed when the network runs."""
        return self.b.constants.get(x) if isinstance(x, Value) else None

    # ------------------------------------------------------------ writing

    def op(self, op: str, *inputs: str, **attrs: Any) -> Value:
        """Append a node to the network.

        Raises:
            Unsupported: the inputs do not fit the operator.
        """
        try:
            return Value(self.b.op(op, *inputs, **attrs))
        except NetworkError as e:
            raise Unsupported(str(e)) from e

    def cast(self, x: Value, dtype: str) -> Value:
        """``x`` with elements of another type."""
        return x if self.dtype(x) == dtype else self.op("cast", x, to=dtype)

    def _example(self) -> torch.Tensor:
        """Of the node's (first) result."""
        results = self.node.meta["val"]
        first: torch.Tensor = results[0] if isinstance(results, (tuple, list)) else results
        return first

    def result_shape(self) -> Shape:
        """Extents of the node's (first) result."""
        return tuple(map(self.extent, self._example().shape))

    def output_dtype(self) -> str:
        """Element type of the node's (first) result.

        Raises:
            Unsupported: networks have no such type.
        """
        name = dtype_name(self._example().dtype)
        if name is None:
            raise Unsupported(f"element type {self._example().dtype}")
        return name

    def reshape(self, x: Value, shape: Sequence[Extent]) -> Value:
        """``x`` with other extents, of which one may be -1."""
        old = self.shape(x)
        known = math.prod(n for n in shape if n != -1)
        if not known and -1 in shape:
            raise Unsupported(f"its result of shape {list(shape)} is empty")
        new = tuple(math.prod(old) // known if n == -1 else n for n in shape)
        if old == new:
            return x
        array = self.known(x)
        if array is not None:
            return self.constant(array.reshape(known_shape(new)), x)
        return self.op("reshape", x, shape=new)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """``x`` with its dimensions in another order."""
        order = tuple(int(p) for p in perm)
        if order == tuple(range(len(order))):
            return x
        array = self.known(x)
        if array is not None:
            return self.constant(np.transpose(array, order), x)
        return self.op("transpose", x, perm=order)

    def expand(self, x: Value, shape: Sequence[Extent]) -> Value:
        """``x`` repeated to ``shape``; a -1 keeps an extent."""
        own = self.shape(x)
        own = (1,) * (len(shape) - len(own)) + own
        new = tuple(o if n == -1 else n for o, n in zip(own, shape, strict=True))
        x = self.reshape(x, own)
        return x if own == new else self.op("expand", x, shape=new)

    def slice(
        self, x: Value, begin: Sequence[Extent], size: Sequence[Extent], stride: Sequence[int]
    ) -> Value:
        """Elements at equal distances along each dimension."""
        shape = self.b.shape(x)
        if tuple(size) == shape and not any(b for b, n in zip(begin, size, strict=True) if n > 1):
            return x
        attrs = {"begin": tuple(begin), "size": tuple(size), "stride": tuple(stride)}
        return self.op("slice", x, **attrs)

    def along(self, x: Value, axis: int, begin: Extent, size: Extent, stride: int = 1) -> Value:
        """``size`` entries of one dimension."""
        shape = self.shape(x)
        first: list[Extent] = [0] * len(shape)
        step = [1] * len(shape)
        first[axis], step[axis] = begin, stride
        return self.slice(x, first, (*shape[:axis], size, *shape[axis + 1 :]), step)


def _converted(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return array.astype(numpy_dtype(dtype))


Result = Any
"""What a node means: a `Value`, a tensor, or a tuple of them with None for what is not offered."""
Converter = Callable[..., Result]
"""Called with the context and the node's arguments."""


def plain(op: str, **attrs: Any) -> Converter:
    """An operator that takes what the node takes, and has these attributes."""
    return lambda c, *given: c.op(op, *map(c.value, given), **attrs)


_MOST_IN_ORDER = 512


def few_enough(extent: Extent) -> None:
    """Refuse what takes a network the square of ``extent`` steps where PyTorch sorts or scans.

    Raises:
        Unsupported: there are more elements than a network is faster for.
    """
    if most(extent) > _MOST_IN_ORDER:
        raise Unsupported(f"over {extent} elements it is faster there")


def used(c: AtenContext, number: int) -> bool:
    """Whether anybody reads result ``number`` of a node with several."""
    readers = (n for n in c.node.users if n.args[1:2] == (number,))
    return any(n.users for n in readers)


def first_of(results: int, convert: Converter, why: str) -> Converter:
    """``convert`` gives the first of several results; who reads another one is told ``why``."""

    def checked(c: AtenContext, *given: Any, **named: Any) -> tuple[Any, ...]:
        if any(used(c, number) for number in range(1, results)):
            raise Unsupported(why)
        return convert(c, *given, **named), *(None for _ in range(1, results))

    return checked
