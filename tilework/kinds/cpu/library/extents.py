"""What a run decides, as C that evaluates it: `sources/shapes.c` says what the tables mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilework.index.extents import Extent
from tilework.index.symbols import Atom, Floor, Symbol, Symbolic
from tilework.kinds.cpu.library.initialisers import listed, text
from tilework.runtime.image import Image, Value
from tilework.runtime.layout import behind_in
from tilework.runtime.solve import Solver


class Extents:
    """The extents of a library, each once, by number.

    Args:
        symbols: what they depend on.
    """

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self._atoms: dict[Atom, int] = {symbol: n for n, symbol in enumerate(symbols)}
        self._first_floor = len(symbols)
        self._numbers: dict[Extent, int] = {}

    def number(self, extent: Extent) -> int:
        """Where in the tables an extent is."""
        return self._numbers.setdefault(extent, len(self._numbers))

    def numbers(self, extents: Iterable[Extent]) -> list[int]:
        """The same of several."""
        return [self.number(extent) for extent in extents]

    def __len__(self) -> int:
        return len(self._numbers)

    def lines(self, num_sizes: int) -> list[str]:
        """The tables, once all extents have numbers.

        Args:
            num_sizes: so many of the first ones are sizes, and never negative.
        """
        terms: list[tuple[int, int, int]] = []
        begins, atoms, floors = list[int](), list[int](), list[Floor]()
        rows = list(self._numbers)
        for extent in rows:  # grows: a floor is of an extent
            begins.append(len(terms))
            polynomial = extent.terms if isinstance(extent, Symbolic) else {(): extent}
            for monomial, factor in polynomial.items():
                if factor:
                    terms.append((factor, len(atoms), len(monomial)))
                    atoms += [self._atom(atom, floors, rows) for atom in monomial]
        wholes = [(self.number(floor.whole), floor.by) for floor in floors]
        return [
            f"enum {{ NUM_EXTENTS = {len(rows)}, NUM_SIZES = {num_sizes} }};",
            f"static const uint32_t atoms[] = {listed(atoms)};",
            f"static const term terms[] = {listed(map(_row, [*terms, (0, len(atoms), 0)]))};",
            f"static const uint32_t extents[] = {listed([*begins, len(terms)])};",
            f"static const quotient quotients[] = {listed(map(_row, wholes))};",
        ]

    def _atom(self, atom: Atom, floors: list[Floor], rows: list[Extent]) -> int:
        if atom not in self._atoms:
            assert isinstance(atom, Floor)
            self._atoms[atom] = self._first_floor + len(floors)
            floors.append(atom)
            if atom.whole not in self._numbers:
                self.number(atom.whole)
                rows.append(atom.whole)
        return self._atoms[atom]


def shared_tables(image: Image, extents: Extents, num_sizes: int) -> list[str]:
    """What the levels of a network of symbolic shapes have in common.

    Args:
        image: of one of them.
        extents: those of all sizes have the first numbers already.
        num_sizes: how many of these are sizes.
    """
    ends, symbols = image.ends, image.symbols
    solver = Solver(image.name, image.inputs, symbols)
    places = {symbol: n for n, symbol in enumerate(symbols)}
    rules = [
        (places[r.symbol], r.at.input, r.at.number, extents.number(r.rest), r.factor)
        for r in solver.equations
    ]
    io_sizes, behind = _io_extents(image, extents)
    outputs = {v.io: n for n, v in enumerate(ends.outputs)}
    rooms = [(r.io, outputs[r.io], r.axis, r.shape[r.axis]) for r in ends.rooms]
    usual = solver.named({})
    ranges = [
        f"{{{text(s.name)}, {s.low}, {s.high}, {n}}}" for s, n in zip(symbols, usual, strict=True)
    ]
    return [
        *extents.lines(num_sizes),
        f"static const rule rules[] = {listed(map(_row, rules))};",
        f"static const uint32_t io_extents[] = {listed(io_sizes)};",
        f"static const uint32_t behind_extents[] = {listed(behind)};",
        *_dimensions("input", ends.inputs, extents),
        *_dimensions("output", ends.outputs, extents),
        f"static const tw_symbol symbols[] = {listed(ranges)};",
        f"static const unsigned char or_none[] = {listed(int(s.or_none) for s in symbols)};",
        f"static const tw_room rooms[] = {listed(map(_row, rooms))};",
        "static const tw_symbols tw_symbols_here = "
        f"{{{len(symbols)}, {len(rooms)}, symbols, rooms, input_texts, output_texts}};",
    ]


def number_sizes(image: Image, extents: Extents) -> None:
    """Give numbers to what the ends of an image have of extents."""
    _io_extents(image, extents)
    extents.numbers(n for v in (*image.inputs, *image.outputs) for n in v.shape)


def number_places(image: Image, extents: Extents) -> None:
    """Give numbers to the sizes and places of what an image has in memory."""
    extents.numbers(ref.nbytes for ref in image.refs)
    extents.numbers(n for pair in image.workspaces for n in pair)
    extents.numbers(v.size for v in image.lifetimes)
    extents.numbers(p.offset for p in image.places)


def level_tables(number: int, image: Image, extents: Extents) -> list[str]:
    """Lifetimes and places of a level's values."""
    lifetimes = [(extents.number(v.size), v.first, v.last) for v in image.lifetimes]
    places = [(p.lifetime, extents.number(p.offset)) for p in image.places]
    return [
        f"static const lifetime lifetimes{number}[] = {listed(map(_row, lifetimes))};",
        f"static const place places{number}[] = {listed(map(_row, places))};",
    ]


def _io_extents(image: Image, extents: Extents) -> tuple[list[int], list[int]]:
    """Of each io buffer, its size, and where in it new positions begin."""
    ends = image.ends
    behind = [behind_in(ends, n) if n in ends.continued else 0 for n in range(len(ends.io_values))]
    return extents.numbers(v.nbytes for v in ends.io_values), extents.numbers(behind)


def _dimensions(name: str, values: Sequence[Value], extents: Extents) -> list[str]:
    """Extents and texts of the dimensions of some values."""
    rows, tables = range(len(values)), []
    for i, value in enumerate(values):
        numbers, texts = extents.numbers(value.shape), [text(str(n)) for n in value.shape]
        tables += [
            f"static const uint32_t {name}_extents{i}[] = {listed(numbers)};",
            f"static const char *const {name}_texts{i}[] = {listed(texts)};",
        ]
    for what, kind in (("extents", "uint32_t *"), ("texts", "char *const *")):
        each = listed(f"{name}_{what}{i}" for i in rows)
        tables.append(f"static const {kind}const {name}_{what}[] = {each};")
    return tables


def _row(numbers: Iterable[object]) -> str:
    return listed(numbers)
