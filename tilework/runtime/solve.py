"""The values of symbols, from the shapes of what a run is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tilework.errors import ShapeError
from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic, symbols_of
from tilework.runtime.image import Value
from tilework.runtime.sizes import Shapes


class Dimension(NamedTuple):
    """One dimension of an input: of which, its number, and its extent."""

    input: int
    number: int
    extent: Extent


class Equation(NamedTuple):
    """``symbol = (dimension - rest) / factor``, where ``rest`` is made of symbols known before."""

    symbol: Symbol
    at: Dimension
    factor: int
    rest: Extent


class Solver:
    """Finds the values of symbols, and checks every dimension with them.

    A symbol is what a dimension says that is the symbol itself; else what one says in which it
    stands with a factor beside known ones, such as ``past + seq``.

    Args:
        name: begins messages, such as ``module bert``.
        inputs: what runs take.
        symbols: all of the network.

    Attributes:
        equations: how each symbol is found, in an order in which what one needs is known.

    Raises:
        ShapeError: no input says what a symbol is.
    """

    def __init__(self, name: str, inputs: Sequence[Value], symbols: Sequence[Symbol]) -> None:
        self._name, self.inputs, self.symbols = name, tuple(inputs), tuple(symbols)
        self._dimensions = [
            Dimension(i, d, extent)
            for i, value in enumerate(inputs)
            for d, extent in enumerate(value.shape)
        ]
        self._shapes = Shapes(symbols, [value.shape for value in inputs])
        self.equations = list(self._in_order())
        missing = set(self.symbols) - {e.symbol for e in self.equations}
        if missing:
            raise ShapeError(
                f"{name}: the shapes of its inputs do not say what "
                f"{', '.join(sorted(s.name for s in missing))} is"
            )

    def point(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The values of the symbols, in order, for these shapes of the inputs.

        Raises:
            ShapeError: a value is outside its range, inputs disagree, or a shape does not fit; the
                message names the symbol, the value and the range.
        """
        try:
            values = self._solved(shapes)
        except (IndexError, ShapeError):
            self._check_ranks(shapes)
            raise
        point = tuple([values[s] for s in self.symbols])
        if self._shapes.at(point) != list(shapes):
            self._check_ranks(shapes)
            self._refuse(shapes, values)
        return point

    def _solved(self, shapes: Sequence[tuple[int, ...]]) -> dict[Symbol, int]:
        """The values of the symbols, by what their own dimensions say.

        Raises:
            ShapeError: one is no whole number, or outside its range.
            IndexError: a shape has too few dimensions.
        """
        values: dict[Symbol, int] = {}
        for equation in self.equations:
            symbol, at = equation.symbol, equation.at
            given = shapes[at.input][at.number]
            rest = (
                equation.rest.value(values)
                if isinstance(equation.rest, Symbolic)
                else equation.rest
            )
            number, left = divmod(given - rest, equation.factor)
            if left:
                raise ShapeError(self._unfit(at, given, values))
            if not symbol.low <= number <= symbol.high:
                self.check(symbol, number, f", by {self._where(at)}")
            values[symbol] = number
        return values

    def _check_ranks(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Refuse a shape of another number of dimensions."""
        for value, shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(value.shape):
                raise ShapeError(self._wrong(value, shape))

    def _refuse(self, shapes: Sequence[tuple[int, ...]], values: Mapping[Symbol, int]) -> None:
        """Say which dimension is another than these values make it, if any is."""
        for at in self._dimensions:
            given = shapes[at.input][at.number]
            if isinstance(at.extent, Symbolic):
                if given != at.extent.value(values):
                    raise ShapeError(self._unfit(at, given, values))
            elif given != at.extent:
                raise ShapeError(self._wrong(self.inputs[at.input], shapes[at.input]))

    def named(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """The values of the symbols, in order, given by name; typical where none is given.

        Raises:
            ShapeError: there is no such symbol, or a value is outside its range.
        """
        names = [s.name for s in self.symbols]
        unknown = [n for n in values if n not in names]
        if unknown:
            raise ShapeError(
                f"{self._name} has no symbol {', '.join(unknown)}; "
                f"its symbols: {', '.join(names) or 'none'}"
            )
        for symbol in self.symbols:
            self.check(symbol, values.get(symbol.name, symbol.typical), "")
        return tuple(int(values.get(s.name, s.typical)) for s in self.symbols)

    def check(self, symbol: Symbol, number: int, why: str) -> None:
        """Refuse a value outside of its symbol's range."""
        none = number == 0 and symbol.or_none
        if not (symbol.low <= number <= symbol.high or none):
            raise ShapeError(
                f"{self._name}: {symbol.name} is {number}{why}, outside of its range "
                f"{symbol.low} to {symbol.high}"
            )

    def _in_order(self) -> Iterator[Equation]:
        """How each symbol is found, in an order in which what a equation needs is known."""
        known: set[Symbol] = set()
        for plain in (True, False):
            more = True
            while more:
                more = False
                for at in self._dimensions:
                    equation = _equation(at, known)
                    if equation is not None and (
                        not plain or (equation.factor == 1 and equation.rest == 0)
                    ):
                        yield equation
                        known.add(equation.symbol)
                        more = True

    def _where(self, at: Dimension) -> str:
        return f"dimension {at.number} of input {self.inputs[at.input].name}"

    def _wrong(self, value: Value, shape: Sequence[int]) -> str:
        return (
            f"{self._name}: input {value.name}: expected {value.dtype}{list(value.shape)}, got an "
            f"array of shape {list(shape)}"
        )

    def _unfit(self, at: Dimension, given: int, values: Mapping[Symbol, int]) -> str:
        """What to say of a dimension that is not what its extent is."""
        depends = symbols_of([at.extent])
        ranges = ", ".join(f"{s.name} is {s.low} to {s.high}" for s in depends)
        if all(s in values for s in depends) and isinstance(at.extent, Symbolic):
            wanted = f"{at.extent} = {at.extent.value(values)}"
            places = {e.symbol: self._where(e.at) for e in self.equations}
            by = ", ".join(f"{s.name} = {values[s]} by {places[s]}" for s in depends)
            return (
                f"{self._name}: {self._where(at)} is {given}, not {wanted}, with {by} ({ranges})"
            )
        return f"{self._name}: {self._where(at)} is {given}, never {at.extent} ({ranges})"


def _equation(at: Dimension, known: set[Symbol]) -> Equation | None:
    """How a dimension says what its only unknown symbol is; None if it does not."""
    if not isinstance(at.extent, Symbolic):
        return None
    unknown = [s for s in at.extent.symbols if s not in known]
    if len(unknown) != 1:
        return None
    symbol = Symbolic.of({(unknown[0],): 1})
    factor = at.extent.terms.get((unknown[0],), 0)
    rest = at.extent - symbol * factor
    if not factor or unknown[0] in symbols_of([rest]):
        return None
    return Equation(unknown[0], at, factor, rest)
