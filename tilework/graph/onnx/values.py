"""Values of the network under construction, with the operators of arithmetic.

For ONNX operators that are formulas of others: ``(x + 1) * scale`` appends an ``add`` and a
``multiply``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.frozen import frozen
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.index.extents import Extent, known_shape
from tilework.index.symbols import Symbolic

Operand = Union["Value", float, np.ndarray, Symbolic]
"""A number or an array becomes a constant of the other operand's element type, an extent that a
run brings a value of it."""


@frozen(eq=False)
class Value:
    """A value of the network that ``c`` builds; methods append nodes and return their results."""

    c: OnnxContext
    name: str

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Its extents."""
        return self.c.b.shape(self.name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The same as numbers, where nothing else will do."""
        return known_shape(self.shape)

    @property
    def dtype(self) -> str:
        """Its element type."""
        return self.c.b.types[self.name].dtype

    def op(self, op: str, *others: Operand, **attrs: Any) -> Value:
        """An operator of the network language on this value and others."""
        names = [self.operand(o).name for o in others]
        return Value(self.c, self.c.op(op, self.name, *names, **attrs))

    def constant(self, array: Any) -> Value:
        """A constant of this value's element type."""
        return constant(self.c, np.asarray(array).astype(numpy_dtype(self.dtype)))

    def operand(self, other: Operand) -> Value:
        """``other`` as a value, of this one's element type if it is none yet."""
        if isinstance(other, Symbolic):
            return arange(self.c, (), start=other, step=0, dtype=self.dtype)
        return other if isinstance(other, Value) else self.constant(other)

    def __add__(self, other: Operand) -> Value:
        return self.op("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.op("subtract", other)

    def __rsub__(self, other: float | np.ndarray) -> Value:
        return self.constant(other) - self

    def __mul__(self, other: Operand) -> Value:
        return self.op("multiply", other)

    def __truediv__(self, other: Operand) -> Value:
        return self.op("divide", other)

    def __lt__(self, other: Value | float) -> Value:
        return self.op("less", other)

    def __le__(self, other: Value | float) -> Value:
        return self.op("less_equal", other)

    def __gt__(self, other: Value | float) -> Value:
        return self.op("greater", other)

    def __ge__(self, other: Value | float) -> Value:
        return self.op("greater_equal", other)

    def __and__(self, other: Value) -> Value:
        return self.op("logical_and", other)

    def __or__(self, other: Value) -> Value:
        return self.op("logical_or", other)

    def clamped(self, low: float, high: Operand) -> Value:
        """Within ``low`` to ``high``; NaN becomes ``low``."""
        return self.constant(low).op("at_least", self).op("at_most", high)

    def where(self, condition: Value, other: Operand) -> Value:
        """This value where ``condition`` holds, else ``other``."""
        return condition.op("where", self, self.operand(other))

    def cast(self, dtype: str) -> Value:
        """Converted to another element type."""
        return self if self.dtype == dtype else self.op("cast", to=dtype)

    def reshape(self, *shape: Extent) -> Value:
        """In another shape; one extent may be -1."""
        known = math.prod(n for n in shape if n != -1)
        new = tuple(math.prod(self.shape) // known if n == -1 else n for n in shape)
        return self if new == self.shape else self.op("reshape", shape=new)

    def transpose(self, *perm: int) -> Value:
        """With its dimensions in another order."""
        return self if perm == tuple(range(len(perm))) else self.op("transpose", perm=perm)

    def part(self, axis: int, begin: Extent, size: Extent, stride: int = 1) -> Value:
        """``size`` entries of one dimension."""
        shape = self.shape
        if (begin, size, stride) == (0, shape[axis], 1):
            return self

        def at(value: Extent, otherwise: Sequence[Extent]) -> tuple[Extent, ...]:
            return (*otherwise[:axis], value, *otherwise[axis + 1 :])

        rank = len(shape)
        return self.op(
            "slice",
            begin=at(begin, (0,) * rank),
            size=at(size, shape),
            stride=at(stride, (1,) * rank),
        )


def room(c: OnnxContext, count: int) -> None:
    """Pay for ``count`` numbers that are about to be made.

    Raises:
        Unsupported: the import has no room for them.
    """
    if not c.budget.take(8 * count):
        raise Unsupported("the tables that it needs are too large")


def constant(c: OnnxContext, array: np.ndarray) -> Value:
    """A constant of the array's element type.

    Raises:
        Unsupported: the import has no room for it.
    """
    room(c, array.nbytes // 8)
    array = np.asarray(array, order="C")
    return Value(c, c.b.constant(array, "table" if array.ndim else "scalar"))


def arange(
    c: OnnxContext,
    shape: tuple[Extent, ...],
    axis: int = 0,
    *,
    start: Extent = 0,
    step: int = 1,
    dtype: str = "int32",
) -> Value:
    """Whole numbers that rise along one dimension; with a step of 0 the same everywhere."""
    return Value(c, c.op("arange", shape=shape, axis=axis, start=start, step=step, dtype=dtype))


def value(c: OnnxContext, name: str) -> Value:
    """The value of an ONNX name."""
    return Value(c, c.value(name))
