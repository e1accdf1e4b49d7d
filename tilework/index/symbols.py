"""Extents that a run brings: polynomials of symbols, with floor divisions as atoms.

A `Symbolic` extent is no integer: it has no ``int()``, and goes into no array of NumPy. Equal ones
are one object, so that ``==`` means *equal at every point*. Every other comparison is decided over
the ranges of its symbols, or raises `Undecided`: a guess is never silent.

    seq = symbol("seq", 1, 512)
    seq * 64 * 12 == 768 * seq      True
    seq < 1000, seq > 8             True, raises Undecided
    -(-seq // 8) == (seq + 7) // 8  True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import ClassVar, NoReturn, Union

from tilework.errors import TileworkError
from tilework.frozen import frozen
from tilework.index.terms import added, interval, multiplied, place, quotient

Point = Mapping["Symbol", int]
"""Values of symbols."""
Atom = Union["Symbol", "Floor"]
Monomial = tuple[Atom, ...]
"""A product of atoms, in their order; empty for 1."""
Terms = Mapping[Monomial, int]
"""Coefficients, none of them 0, by product of atoms."""
Whole = Union[int, "Symbolic"]


class Undecided(TileworkError, TypeError):
    """A comparison that holds at some points of the ranges, and at others does not.

    Attributes:
        sides: what is compared; None if that is no comparison of two extents.
        what: ``==``, ``<`` and so on.
    """

    def __init__(
        self, text: str, sides: tuple[Whole, Whole] | None = None, what: str = ""
    ) -> None:
        super().__init__(text)
        self.sides, self.what = sides, what


@frozen
class Symbol:
    """A number that a run brings.

    Attributes:
        name: its name, one for each symbol of a network.
        low, high: the least and the greatest value, both possible.
        typicals: values that a search looks at, in rising order.
        or_none: it may be 0 besides: then there is nothing to compute.
    """

    name: str
    low: int
    high: int
    typicals: tuple[int, ...]
    or_none: bool = False

    def __post_init__(self) -> None:
        span = f"{self.low}..{self.high}"
        if not 0 <= self.low <= self.high:
            raise ValueError(f"symbol {self.name}: there is no number in {span}")
        for value in self.typicals:
            if not self.low <= value <= self.high:
                raise ValueError(f"symbol {self.name}: its typical value {value} is not in {span}")
        if not self.typicals:
            raise ValueError(f"symbol {self.name} has no typical value")

    def __hash__(self) -> int:
        return hash(self.name)  # which a text knows; a run looks symbols up by the dozen

    @property
    def typical(self) -> int:
        """The one value that stands for all where one is enough: the middle one of `typicals`."""
        return self.typicals[len(self.typicals) // 2]

    @property
    def key(self) -> tuple[int, str]:
        """Where it stands in a product."""
        return 0, self.name

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest value."""
        return self.low, self.high


@frozen
class Floor:
    """``whole // by`` as an atom, where it is no polynomial; ``by`` is positive."""

    whole: Symbolic
    by: int

    @cached_property
    def key(self) -> tuple[int, str]:
        """Where it stands in a product."""
        return 1, str(self)

    @property
    def range(self) -> tuple[int, int]:
        """A least and a greatest value."""
        low, high = self.whole.range
        return low // self.by, high // self.by

    def __str__(self) -> str:
        whole = str(self.whole)
        return f"(({whole})//{self.by})" if " " in whole else f"({whole}//{self.by})"


class Symbolic:
    """``sum(coefficient * product(atoms))`` that is no number; made by `symbol` and arithmetic."""

    terms: Terms
    __array_ufunc__ = None
    _known: ClassVar[dict[frozenset[tuple[Monomial, int]], Symbolic]] = {}

    @staticmethod
    def of(terms: Terms) -> Whole:
        """The extent of these terms; an integer where it is one."""
        kept = {m: c for m, c in terms.items() if c}
        if not any(kept):
            return kept.get((), 0)
        key = frozenset(kept.items())
        one = Symbolic._known.get(key)
        if one is None:
            one = object.__new__(Symbolic)
            one.terms = dict(sorted(kept.items(), key=lambda term: place(term[0])))
            one = Symbolic._known.setdefault(key, one)
        return one

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that it depends on, by name."""
        symbols: set[Symbol] = set()
        for atom in (a for m in self.terms for a in m):
            symbols.update((atom,) if isinstance(atom, Symbol) else atom.whole.symbols)
        return tuple(sorted(symbols, key=lambda s: s.name))

    @cached_property
    def range(self) -> tuple[int, int]:
        """A least and a greatest value: none lies outside, and not each end has to be reached."""
        return _bounds(self.terms)

    def value(self, at: Point) -> int:
        """The number at a point; a `KeyError` where a symbol has no value there."""
        total = 0
        for monomial, product in self.terms.items():
            for a in monomial:
                product *= at[a] if isinstance(a, Symbol) else a.whole.value(at) // a.by
            total += product
        return total

    def __add__(self, other: Whole) -> Whole:
        return _sum(self, other) if isinstance(other, int | Symbolic) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Whole:
        return _product(self, -1)

    def __sub__(self, other: Whole) -> Whole:
        return _sum(self, -other) if isinstance(other, int | Symbolic) else NotImplemented

    def __rsub__(self, other: Whole) -> Whole:
        return _sum(-self, other) if isinstance(other, int | Symbolic) else NotImplemented

    def __mul__(self, other: Whole) -> Whole:
        return _product(self, other) if isinstance(other, int | Symbolic) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, by: Whole) -> Whole:
        if not isinstance(by, int | Symbolic):
            return NotImplemented
        return _floor(self, by) if isinstance(by, int) else _divided(self, by)

    def __rfloordiv__(self, whole: int) -> Whole:
        return _divided(whole, self) if isinstance(whole, int) else NotImplemented

    def __mod__(self, by: Whole) -> Whole:
        return self - self // by * by if isinstance(by, int | Symbolic) else NotImplemented

    def __lt__(self, other: Whole) -> bool:
        return decided(self, other, lambda d: d < 0, "<")

    def __le__(self, other: Whole) -> bool:
        return decided(self, other, lambda d: d <= 0, "<=")

    def __gt__(self, other: Whole) -> bool:
        return decided(self, other, lambda d: d > 0, ">")

    def __ge__(self, other: Whole) -> bool:
        return decided(self, other, lambda d: d >= 0, ">=")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        low, high = self.range
        if low > 0 or high < 0:
            return True
        raise Undecided(f"{self} != 0, where {_ranges(self)}")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"the extent {self} is no number, and goes into no array")

    def __reduce__(self) -> tuple[Callable[[Terms], Whole], tuple[Terms]]:
        return Symbolic.of, (self.terms,)

    def __str__(self) -> str:
        return " + ".join(_text(m, c) for m, c in self.terms.items()).replace("+ -", "- ")

    __repr__ = __str__


def symbol(
    name: str, low: int, high: int, typicals: Iterable[int] = (), or_none: bool = False
) -> Whole:
    """A symbol as an extent; ``high`` stands for the values that a search looks at if none do."""
    one = Symbol(name, low, high, tuple(sorted(set(typicals))) or (high,), or_none)
    return low if low == high else Symbolic.of({(one,): 1})


def range_of(extent: Whole) -> tuple[int, int]:
    """A least and a greatest value of an extent."""
    return extent.range if isinstance(extent, Symbolic) else (extent, extent)


def value_at(extent: Whole, at: Point) -> int:
    """What an extent is at a point."""
    return extent.value(at) if isinstance(extent, Symbolic) else extent


def symbols_of(extents: Iterable[Whole]) -> tuple[Symbol, ...]:
    """The symbols of some extents, by name."""
    symbols = {s for e in extents if isinstance(e, Symbolic) for s in e.symbols}
    return tuple(sorted(symbols, key=lambda s: s.name))


def is_static(extents: Iterable[Whole]) -> bool:
    """Whether all of them are numbers."""
    return not any(isinstance(e, Symbolic) for e in extents)


def same(a: Whole, b: Whole) -> bool:
    """Whether two extents are equal, at every point or at none.

    Raises:
        Undecided: they are so at some points only, as far as their ranges tell.
    """
    if a == b:
        return True
    low, high = range_of(a - b)
    if low > 0 or high < 0:
        return False
    raise Undecided(f"{a} == {b}, where {_ranges(a, b)}", (a, b), "==")


def decided(a: Whole, b: Whole, holds: Callable[[int], bool], what: str) -> bool:
    """Whether something holds of ``a - b``, by its range; ``holds`` is monotone.

    Raises:
        Undecided: it holds at some points only, as far as ranges tell.
    """
    ends = {holds(end) for end in range_of(a - b)}
    if len(ends) == 1:
        return ends.pop()
    raise Undecided(f"{a} {what} {b}, where {_ranges(a, b)}", (a, b), what)


def certain(question: Callable[[], bool]) -> bool:
    """Whether something holds at every point: not where ranges leave it open."""
    try:
        return question()
    except Undecided:
        return False


def exact_quotient(whole: Whole, by: Whole) -> Whole | None:
    """``whole / by`` where that is a polynomial, else None."""
    if isinstance(whole, int) and isinstance(by, int):
        return whole // by if by and not whole % by else None
    terms = quotient(_terms(whole), _terms(by))
    return None if terms is None else Symbolic.of(terms)


def _divided(whole: Whole, by: Whole) -> Whole:
    quotient = exact_quotient(whole, by)
    if quotient is None:
        raise Undecided(f"{whole} divided by {by} is no polynomial")
    return quotient


def _terms(extent: Whole) -> Terms:
    return extent.terms if isinstance(extent, Symbolic) else {(): int(extent)} if extent else {}


@lru_cache(1 << 16)
def _sum(a: Whole, b: Whole) -> Whole:
    return Symbolic.of(added(_terms(a), _terms(b)))


@lru_cache(1 << 16)
def _product(a: Whole, b: Whole) -> Whole:
    return Symbolic.of(multiplied(_terms(a), _terms(b)))


@lru_cache(1 << 16)
def _floor(a: Symbolic, by: int) -> Whole:
    """``a // by``: what ``by`` divides, and one atom of the rest; equal floors are one."""
    if by <= 0:
        raise ValueError(f"{a} is divided by {by}")
    whole = {m: c // by for m, c in a.terms.items() if not m or not c % by}
    rest = {m: c for m, c in a.terms.items() if m and c % by}
    const = a.terms.get((), 0) % by
    if not rest:
        return Symbolic.of(whole)
    if next(iter(rest.values())) < 0:  # -(x // d), with x as what is written
        ceiling = Symbolic.of({m: -c for m, c in rest.items()} | {(): by - 1 - const})
        return Symbolic.of(whole) - ceiling // by
    unit = math.gcd(by, *rest.values())
    inner = Symbolic.of({m: c // unit for m, c in rest.items()} | {(): const // unit})
    assert isinstance(inner, Symbolic)
    by //= unit
    low, high = inner.range
    if low // by == high // by:
        return Symbolic.of(whole) + low // by
    single = [m[0] for m, c in inner.terms.items() if c == 1 and len(m) == 1]
    floors = [a for a in single if isinstance(a, Floor)]
    if len(floors) == 1:  # (x // a + y) // b is (x + a * y) // (a * b)
        (nested,) = floors
        others = inner - Symbolic.of({(nested,): 1})
        return Symbolic.of(whole) + (nested.whole + nested.by * others) // (nested.by * by)
    return Symbolic.of(whole) + Symbolic.of({(Floor(inner, by),): 1})


def _bounds(terms: Terms) -> tuple[int, int]:
    """A least and a greatest value: by ranges of atoms, and of what a few floors are made of."""
    if (unit := math.gcd(*terms.values())) > 1:
        low, high = range_of(Symbolic.of({m: c // unit for m, c in terms.items()}))
        return unit * low, unit * high
    low, high = interval(terms)
    if len(terms) > 64 or _rising(terms):
        return low, high
    scale, without = _without_floors(terms)
    if without is not None:
        inner = range_of(without)
        low, high = max(low, -(-inner[0] // scale)), min(high, inner[1] // scale)
    return low, high


def _rising(terms: Terms) -> bool:
    """Whether all terms rise with all symbols: the ends are where symbols have theirs."""
    if any(c < 0 for m, c in terms.items() if m):
        return False
    floors = {a for m in terms for a in m if isinstance(a, Floor)}
    return all(f.range[0] >= 0 and _rising(f.whole.terms) for f in floors)


def _without_floors(terms: Terms) -> tuple[int, Whole | None]:
    """A multiple of the terms, as often as is told, whose floors are ``(whole - rest) / by``.

    It has the same range or a wider one, since rests may be anything; None without floors. Of
    several floors in one product the first is replaced.
    """
    floors = {m: next((a for a in m if isinstance(a, Floor)), None) for m in terms}
    scale = 1
    for m, floor in floors.items():
        if floor is not None:
            scale = math.lcm(scale, floor.by // math.gcd(floor.by, terms[m]))
    out: Whole = 0
    for m, c in terms.items():
        floor = floors[m]
        if floor is None:
            out = out + Symbolic.of({m: c * scale})
            continue
        at = m.index(floor)
        rest = symbol(f"rest of {floor}", 0, floor.by - 1)
        others = Symbolic.of({(*m[:at], *m[at + 1 :]): c * scale // floor.by})
        out = out + (floor.whole - rest) * others
    return scale, out if any(floors.values()) else None


def _text(monomial: Monomial, c: int) -> str:
    names = [a.name if isinstance(a, Symbol) else str(a) for a in monomial]
    return "*".join(([] if c == 1 and names else [str(c)]) + names)


def _ranges(*extents: Whole) -> str:
    return ", ".join(f"{s.name} is {s.low} to {s.high}" for s in symbols_of(extents))
