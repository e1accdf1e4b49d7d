"""Updates of registers by products, ``r = r + a * b``: most statements of an expanded body.

Each is emitted for every point of its loops, and is what `Expressions` makes of it, text by text.
What does not change from point to point is looked up once; of the rest, no more is done than a
point needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.lanes import Active, Lane
from tilework.kinds.cpu.llvm.load_store import LoadKey, extent_of
from tilework.kinds.cpu.llvm.ssa import Ssa, zero_literal
from tilework.lower.ir import Buffer, For, Load, Store, walk_stmts
from tilework.te.expr import Axis, Binary, walk


class _Operand(NamedTuple):
    """A factor in memory, at a linear index."""

    buffer: Buffer
    form: Form[Axis]


class _Update(NamedTuple):
    """The register and its index, the literal that needs no addition, and the factors."""

    buffer: Buffer
    form: Form[Axis]
    zero: str
    factors: tuple[_Operand, _Operand]


_Factor = tuple[Buffer, Terms, Extent, int, Active]
"""A load: of what, dynamic terms and number of its first element, width, and active lanes."""


class _Place(NamedTuple):
    """An update at a point: element and lanes of the register, and the factors."""

    update: _Update
    element: int
    lane: Lane | None
    a: _Factor
    b: _Factor


@frozen
class ExpandedNest:
    """Expanded loops around a vector loop of one statement.

    Attributes:
        loops: the expanded ones, outermost first.
        points: of these loops, where they have another order.
    """

    loops: tuple[For, ...]
    vectors: For
    store: Store
    points: Sequence[Mapping[Axis, int]] | None

    @staticmethod
    def of(s: For, points: Sequence[Mapping[Axis, int]] | None) -> ExpandedNest | None:
        """The nest that a loop is; None if it is none whose points are all alike."""
        loops: list[For] = []
        while s.kind == "unroll" and isinstance(s.extent, int) and isinstance(s.body, For):
            loops.append(s)
            s = s.body
        if s.kind != "vector" or s.active is not None or not isinstance(s.body, Store):
            return None
        return ExpandedNest(tuple(loops), s, s.body, points)

    def moved(self, form: Form[Axis]) -> list[Extent]:
        """How far from the loops' first point a form is at each of them, in order."""
        steps = [(s.var, form.step(s.var), s.extent) for s in self.loops]
        if self.points is not None:
            return [sum((c * p[axis] for axis, c, _ in steps), 0) for p in self.points]
        out: list[Extent] = [0]
        for _, c, count in steps:
            assert isinstance(count, int)
            out = [at + c * i for at in out for i in range(count)]
        return out


class Updates:
    """Emits updates of registers by products."""

    def __init__(self, expressions: Expressions) -> None:
        self._memory, self._arithmetic = expressions.memory, expressions.arithmetic
        self._addresses = expressions.addresses
        self._known: dict[int, tuple[Store, _Update | None]] = {}

    def emitted(self, s: Store) -> bool:
        """Emit a statement at this point of its loops; False: it is none of these, or not here."""
        update = self._of(s)
        place = None if update is None else self._place(update)
        if place is None or not self._held(place, (0,)):
            return False
        self._emit([place], [(0, 0, 0)])
        return True

    def nest(self, nest: ExpandedNest, lanes: Sequence[Lane]) -> bool:
        """Emit a nest of expanded loops around vectors of an update; False: it is none.

        Args:
            lanes: the vectors of its innermost loop.
        """
        update, bindings = self._of(nest.store), self._memory.bindings
        if update is None:
            return False
        for s in nest.loops:
            bindings.bind(s.var, 0)
        places = []
        for lane in lanes:
            bindings.bind(nest.vectors.var, lane if lane.width > 1 else lane.offset)
            place = self._place(update)
            if place is None:
                return False
            places.append(place)
        registers = [n for n in nest.moved(update.form) if isinstance(n, int)]
        a, b = (nest.moved(factor.form) for factor in update.factors)
        if len(registers) < len(a) or not all(self._held(p, {*registers}) for p in places):
            return False
        self._emit(places, zip(registers, a, b, strict=True))
        return True

    def _of(self, s: Store) -> _Update | None:
        hit = self._known.get(id(s))
        if hit is None:
            hit = self._known[id(s)] = (s, self._update(s))
        return hit[1]

    def _place(self, update: _Update) -> _Place | None:
        """Where the registers and factors of an update are here; None where lanes are apart."""
        if self._memory.guards:
            return None
        split = self._memory.bindings.split
        element, _, step, lane = split(update.form)
        factors = []
        for buffer, form in update.factors:
            const, terms, along, own = split(form)
            if along not in (0, 1) or (along and own is not lane):
                return None
            factors.append((buffer, terms, const, *extent_of(own if along else None)))
        if not isinstance(element, int) or step not in (0, 1):
            return None
        return _Place(update, element, lane, factors[0], factors[1])

    def _held(self, place: _Place, moved: Iterable[int]) -> bool:
        """Whether registers there hold vectors of the place's width, which are no literals."""
        width, update = 1 if place.lane is None else place.lane.width, place.update
        for by in moved:
            held = self._memory.registers.values.get((update.buffer, place.element + by))
            if held is None or held.width != width or held.ssa == update.zero:
                return False
        return True

    def _emit(self, places: Sequence[_Place], moved: Iterable[tuple[int, Extent, Extent]]) -> None:
        """Updates at places, all of them moved by numbers of elements: registers and factors."""
        registers, loads = self._memory.registers, self._memory.loads
        values, multiply_add = registers.values, self._arithmetic.multiply_add
        registers.one_by_one.leave()
        for by, by_a, by_b in moved:
            for update, element, lane, a, b in places:
                buffer, terms, at, width, active = a
                key: LoadKey = (buffer, terms, at + by_a, width, active, ())
                x = loads.get(key) or self._loaded(key)
                buffer, terms, at, width, active = b
                key = (buffer, terms, at + by_b, width, active, ())
                y = loads.get(key) or self._loaded(key)
                done = multiply_add(x, y, values[update.buffer, element + by])
                registers.keep(update.buffer, element + by, done, lane)

    def _loaded(self, key: LoadKey) -> Ssa:
        buffer, terms, const, width, active, _ = key
        pointer = self._addresses.pointer(buffer, terms, const)
        value = self._memory.loads[key] = self._memory.load_at(buffer, pointer, width, active)
        return value

    def _update(self, s: Store) -> _Update | None:
        """The statement, if it is an update."""
        e = s.value
        if s.buffer.scope != "register" or not isinstance(e, Binary) or e.op != "+":
            return None
        flipped = isinstance(e.b, Binary) and e.b.op == "*"
        product, other = (e.b, e.a) if flipped else (e.a, e.b)
        if not (isinstance(product, Binary) and product.op == "*" and is_float(e.dtype)):
            return None
        a, b = product.a, product.b
        if not (isinstance(other, Load) and isinstance(a, Load) and isinstance(b, Load)):
            return None
        if other.buffer is not s.buffer or other.indices != s.indices:
            return None
        if any(x.buffer.scope == "register" for x in (a, b)):
            return None
        flat = self._addresses.flat
        form = flat(s.buffer, s.indices)
        forms = [flat(x.buffer, x.indices) for x in (a, b)]
        if form is None or forms[0] is None or forms[1] is None:
            return None
        factors = _Operand(a.buffer, forms[0]), _Operand(b.buffer, forms[1])
        return _Update(s.buffer, form, zero_literal(e.dtype), factors)


def reduces(s: For) -> bool:
    """Whether all steps of a loop update the same registers."""
    stores = (x for x in walk_stmts(s.body) if isinstance(x, Store))
    indices = (i for x in stores if x.buffer.scope == "register" for i in x.indices)
    return not any(s.var in walk(i) for i in indices)
