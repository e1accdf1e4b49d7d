"""Many extents at once at a point, by a function of Python that is written for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from tilework.index.extents import Extent
from tilework.index.symbols import Atom, Floor, Symbol, Symbolic

Numbers = tuple[int, ...]


class Sizes:
    """Extents, to be evaluated together.

    The function has no loops and no names to look up: where a shape is new, weights have put all
    else out of the caches, and each thing that is touched takes longer than a dozen of additions.

    Args:
        symbols: those that they depend on.
        groups: extents, in the order of their values.
    """

    def __init__(self, symbols: Sequence[Symbol], groups: Iterable[Sequence[Extent]]) -> None:
        self._names: dict[Atom, str] = {s: f"s{n}" for n, s in enumerate(symbols)}
        given = ", ".join(self._names.values())
        self._lines: list[str] = []
        values = "".join(f"({''.join(f'{self._text(e)}, ' for e in group)}), " for group in groups)
        self._source = "\n ".join([f"def at({given}):", *self._lines, f"return ({values})"])

    @cached_property
    def at(self) -> Callable[..., tuple[Numbers, ...]]:
        """The values of each group where symbols have those that are given, in order."""
        names: dict[str, Callable[..., tuple[Numbers, ...]]] = {}
        exec(self._source, names)
        return names["at"]

    def _text(self, extent: Extent) -> str:
        if not isinstance(extent, Symbolic):
            return f"{extent:d}"
        terms = (
            "*".join([f"{c:d}"] * (c != 1 or not atoms) + [self._name(atom) for atom in atoms])
            for atoms, c in extent.terms.items()
        )
        return " + ".join(terms)

    def _name(self, atom: Atom) -> str:
        """The variable of an atom: symbols are given, and each floor is computed once."""
        if atom not in self._names:
            assert isinstance(atom, Floor)
            quotient = f"({self._text(atom.whole)})//{atom.by:d}"
            self._names[atom] = f"f{len(self._lines)}"
            self._lines.append(f"{self._names[atom]} = {quotient}")
        return self._names[atom]


class Shapes:
    """Shapes of many values, of which many are the same, to be evaluated together.

    Args:
        symbols: those that they depend on.
        shapes: in the order of the values.
    """

    def __init__(self, symbols: Sequence[Symbol], shapes: Sequence[tuple[Extent, ...]]) -> None:
        numbers = {shape: n for n, shape in enumerate(dict.fromkeys(shapes))}
        self._sizes = Sizes(symbols, numbers)
        self._numbers = [numbers[shape] for shape in shapes]

    def at(self, values: Sequence[int]) -> list[Numbers]:
        """All shapes where the symbols have these values, in order."""
        distinct = self._sizes.at(*values)
        return [distinct[n] for n in self._numbers]
