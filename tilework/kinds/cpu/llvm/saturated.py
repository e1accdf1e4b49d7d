"""Stores of bytes that vectors of integers are limited to: four registers become one.

``uint8(min(max(0, y), 255))`` of 16 lanes takes a comparison, a conversion and a store of 16
bytes. Instructions that saturate take two vectors each, so that four vectors become words in two
steps, and bytes in a third; a permutation puts them in order. Whatever y is, a number that is
limited to 16 bits and then to 8 is the one that is limited to 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from tilework.dtypes import integer_range
from tilework.index.extents import Extent
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.lanes import Lane
from tilework.kinds.cpu.llvm.ssa import Ssa
from tilework.kinds.cpu.llvm.updates import ExpandedNest
from tilework.kinds.cpu.llvm.weave import woven
from tilework.lower.ir import Buffer
from tilework.te.expr import Binary, Cast, Const, Expr

_LANES, _VECTORS = 16, 4
_TO_BYTES = {"uint8": "packuswb", "int8": "packsswb"}
_FEATURE = "avx512bw"
_IN_ORDER = ", ".join(f"i32 {4 * (i % 4) + i // 4}" for i in range(_LANES))
"""Where words of 4 bytes are after two steps: neighbours of one vector are in four places."""


class _Place(NamedTuple):
    """Where a vector's first byte goes."""

    terms: Terms
    at: Extent


class Saturated:
    """Emits nests of such stores."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions, self._memory = expressions, expressions.memory
        self._fn, self._declarations = expressions.fn, expressions.memory.declarations

    def nest(self, nest: ExpandedNest, lanes: Sequence[Lane], beside: int = 1) -> bool:
        """Emit a nest of expanded loops around vectors; False: it is none of these.

        Args:
            nest: the loops.
            lanes: the vectors of its innermost loop.
            beside: of how many vectors instructions take turns.
        """
        buffer, number = nest.store.buffer, _limited(nest.store.value)
        if number is None or buffer.scope == "register" or nest.points is not None:
            return False
        if _FEATURE not in self._declarations.features:
            return False
        if any(lane.width != _LANES or lane.idle is not None for lane in lanes):
            return False
        bindings = self._memory.bindings
        outer, bindings.vector = bindings.vector, nest.vectors.var
        try:
            return self._emitted(nest, lanes, number, beside)
        finally:
            bindings.vector = outer

    def _emitted(
        self, nest: ExpandedNest, lanes: Sequence[Lane], number: Expr, beside: int
    ) -> bool:
        waiting: list[tuple[_Place, Ssa]] = []
        starts: list[int] = []  # of their instructions, in the block
        block = self._fn.block
        for _ in self._points(nest, lanes):
            starts.append(len(block.body))
            place = self._place(nest)
            if place is None:
                return False  # as of all points: nothing was emitted
            value = self._expressions.value(number)
            waiting.append((place, self._expressions.arithmetic.splat(value, _LANES)))
            if len(waiting) < _VECTORS:
                continue
            if beside > 1 and block is self._fn.block:
                ends = [*starts, len(block.body)]
                chains = [block.body[a:b] for a, b in pairwise(ends)]
                block.body[starts[0] :] = woven(chains, beside)
            self._store(nest.store.buffer, waiting)
            waiting.clear()
            starts, block = [], self._fn.block
        if waiting:
            self._store(nest.store.buffer, waiting)
        return True

    def _points(self, nest: ExpandedNest, lanes: Sequence[Lane]) -> Iterator[None]:
        """All vectors of a nest, with its loops bound to where each is."""
        bind = self._memory.bindings.bind
        counts = [s.extent for s in nest.loops if isinstance(s.extent, int)]
        for point in product(*map(range, counts)):
            for s, i in zip(nest.loops, point, strict=True):
                bind(s.var, i)
            for lane in lanes:
                bind(nest.vectors.var, lane)
                yield

    def _place(self, nest: ExpandedNest) -> _Place | None:
        form = self._memory.addresses.flat(nest.store.buffer, nest.store.indices)
        if form is None:
            return None
        const, terms, step, _ = self._memory.bindings.split(form)
        return _Place(terms, const) if step == 1 else None

    def _store(self, buffer: Buffer, vectors: Sequence[tuple[_Place, Ssa]]) -> None:
        """Store up to four vectors, neighbours together."""
        places, values = [p for p, _ in vectors], [v.ssa for _, v in vectors]
        a, b, c, d = (values[i % len(values)] for i in range(_VECTORS))
        low = self._packed("packssdw", "<32 x i16>", "<16 x i32>", a, b)
        high = self._packed("packssdw", "<32 x i16>", "<16 x i32>", c, d)
        name = _TO_BYTES[buffer.dtype]
        packed = self._packed(name, "<64 x i8>", "<32 x i16>", low, high)
        words = self._fn.emit(f"bitcast <64 x i8> {packed} to <16 x i32>")
        ordered = self._shuffled(words, _IN_ORDER, _LANES)
        i = 0
        while i < len(places):
            count = _VECTORS
            while i % count or not _neighbours(places[i : i + count], count):
                count //= 2
            part = ordered
            if count < _VECTORS:
                some = ", ".join(f"i32 {4 * i + k}" for k in range(4 * count))
                part = self._shuffled(ordered, some, 4 * count)
            pointer = self._memory.addresses.pointer(buffer, *places[i])
            self._fn.line(f"store <{4 * count} x i32> {part}, ptr {pointer}, align 1")
            i += count
        self._memory.invalidate(buffer)

    def _shuffled(self, words: str, order: str, count: int) -> str:
        two = f"<{_LANES} x i32> {words}, <{_LANES} x i32> poison"
        return self._fn.emit(f"shufflevector {two}, <{count} x i32> <{order}>")

    def _packed(self, name: str, result: str, given: str, a: str, b: str) -> str:
        symbol = f"@llvm.x86.avx512.{name}.512"
        self._declarations.declare(f"declare {result} {symbol}({given}, {given})")
        return self._fn.emit(f"call {result} {symbol}({given} {a}, {given} {b})")


def _neighbours(places: Sequence[_Place], count: int) -> bool:
    """Whether so many vectors follow each other in memory."""
    first = places[0]
    return len(places) == count and all(
        p.terms == first.terms and p.at == first.at + _LANES * i for i, p in enumerate(places)
    )


def _limited(e: Expr) -> Expr | None:
    """The number of int32 that an expression limits to the range of its type."""
    if not isinstance(e, Cast) or e.dtype not in _TO_BYTES or e.a.dtype != "int32":
        return None
    low, high = integer_range(e.dtype)
    if not isinstance(e.a, Binary) or e.a.op != "min" or not _is(e.a.b, high):
        return None
    above = e.a.a
    if not isinstance(above, Binary) or above.op != "max" or not _is(above.a, low):
        return None
    return above.b


def _is(e: Expr, number: int) -> bool:
    return isinstance(e, Const) and e.value == number
