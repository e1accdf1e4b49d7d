"""What a network in parts consists of: modules of ours, parts of the other engine, values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from tilework.errors import ShapeError
from tilework.frozen import frozen
from tilework.index.symbols import Point, Symbol, Symbolic, symbols_of
from tilework.runtime.image import Value
from tilework.runtime.left import Left
from tilework.runtime.module import Module
from tilework.runtime.other import OtherPart, room
from tilework.runtime.solve import Solver

Array = NDArray[Any]


@frozen
class PartValue:
    """A value that parts hand over, or an input or output of the network.

    Attributes:
        name: of the value.
        shape: its extents, which the shapes of a run's inputs may decide; None for those that data
            decide; None where not even their number is known, or it is no tensor.
        dtype: its element type; of what is no tensor, or has elements that NumPy does not know,
            its type as ONNX writes it, such as ``seq(tensor(float))``; empty if unknown.
    """

    name: str
    shape: tuple[int | Symbolic | None, ...] | None
    dtype: str

    @property
    def sized(self) -> bool:
        """Whether its arrays are all alike, or differ in what the shapes of inputs decide."""
        return self.shape is not None and None not in self.shape and "(" not in self.dtype

    def at(self, point: Point) -> tuple[int | None, ...] | None:
        """Its extents at a point, None for those of which it does not say all symbols."""
        if self.shape is None:
            return None
        known = point.keys()
        return tuple(
            [
                n
                if not isinstance(n, Symbolic)
                else n.value(point)
                if known >= {*n.symbols}
                else None
                for n in self.shape
            ]
        )

    def known_at(self, point: Point) -> list[int]:
        """The same of a sized value."""
        return [n for n in self.at(point) or () if n is not None]


@frozen(eq=False)
class Part:
    """A module of ours, or a part of the other engine, and the values that it reads and writes."""

    runner: Module | OtherPart
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@frozen(eq=False)
class PartsImage:
    """Everything that a network in parts consists of.

    Attributes:
        name: of the network.
        target: text of the target of our parts.
        inputs, outputs: of the network, in order; an output may be an input.
        values: what parts hand over, by name, inputs and outputs of the network with it.
        parts: in the order in which they run.
        left: what the other engine runs.
        notes: what became of parts that were to be ours.
    """

    name: str
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, PartValue]
    parts: tuple[Part, ...]
    left: Left
    notes: tuple[str, ...] = ()

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Extents that a run decides, with their ranges."""
        return symbols_in(self.values.values())


def symbols_in(values: Iterable[PartValue]) -> tuple[Symbol, ...]:
    """The symbols of some values."""
    return symbols_of(n for v in values for n in v.shape or () if isinstance(n, Symbolic))


def solver_of(name: str, values: Iterable[PartValue]) -> Solver:
    """What finds the symbols of some values, which are sized.

    Raises:
        ShapeError: their shapes do not say what a symbol is.
    """
    each = [
        Value(v.name, tuple(n for n in v.shape or () if n is not None), v.dtype, -1)
        for v in values
    ]
    return Solver(name, each, symbols_of(n for v in each for n in v.shape))


def says(values: Iterable[PartValue], symbols: Collection[Symbol]) -> bool:
    """Whether the shapes of some values say what symbols are."""
    try:
        solver = solver_of("", values)
    except ShapeError:
        return False
    return set(solver.symbols).issuperset(symbols)


def rooms(image: PartsImage, part: Part, point: Point) -> dict[str, Array]:
    """New arrays for those outputs of a part whose extents are known, by name."""
    each = {n: image.values[n] for n in part.outputs}
    arrays = {n: room(v.dtype, v.at(point)) for n, v in each.items()}
    return {n: array for n, array in arrays.items() if array is not None}
