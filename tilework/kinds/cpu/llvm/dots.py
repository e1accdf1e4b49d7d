"""Sums of several products by one instruction, for the lanes of a register.

``acc[i] + a[n*i] * b[n*i] + ... + a[n*i + n-1] * b[n*i + n-1]`` with groups of n neighbours in
either operand. Here operands are made; the instructions themselves are in `INSTRUCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework.index.extents import Extent, known
from tilework.index.form import constant
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.instructions import INSTRUCTIONS
from tilework.kinds.cpu.llvm.lanes import Lane, LaneDependent
from tilework.kinds.cpu.llvm.load_store import LoadKey, LoadStore
from tilework.kinds.cpu.llvm.masks import masked_load
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, literal, vector_type
from tilework.lower.ir import Dot, Load
from tilework.space.dots import BYTE, BytesOfWord
from tilework.te.expr import Cast, Const, Expr, IfThenElse

_GROUP = -1
"""In place of a width: the elements of a group as one integer."""


def _word(elements: Sequence[Expr]) -> Ssa:
    """A group of constants, of integers or zero, as one integer."""
    bits = 8 * BYTES[elements[0].dtype]
    values = [known(e.whole) % 2**bits for e in elements if isinstance(e, Const)]
    word = sum(v << bits * i for i, v in enumerate(values))
    dtype = f"int{bits * len(elements)}"
    return Ssa(literal(word, dtype), 1, dtype)


class Dots:
    """Emits dot products; owns the repeated groups of the current straight-line code."""

    def __init__(self, memory: LoadStore, arithmetic: Arithmetic) -> None:
        self.memory = memory
        self.arithmetic = arithmetic
        self.addresses = memory.addresses
        self.integers = memory.addresses.integers
        self.fn = arithmetic.fn
        self.declarations = arithmetic.declarations
        self._repeats: dict[tuple[str, str], str] = {}

    def forget(self) -> None:
        """Start of a new basic block: no group repeated so far may be reused."""
        self._repeats.clear()

    def value(self, e: Dot, acc: Ssa, emitted: Callable[[Expr], Ssa]) -> Ssa | None:
        """The sum of ``acc`` and the products; None if operands lie in no such order.

        Args:
            e: the products.
            acc: the sum before.
            emitted: emits what is added to the bytes of words.
        """
        left, right = (self.operand(elements, acc.width, emitted) for elements in e.operands)
        if not (left and right):
            return None
        # A group repeated in all lanes comes last: there it may be read by the instruction.
        if e.instruction.left == e.instruction.right and left in self._repeats.values():
            left, right = right, left
        return INSTRUCTIONS[e.name](self.arithmetic, e.instruction, acc, left, right)

    def operand(
        self, elements: Sequence[Expr], width: int, emitted: Callable[[Expr], Ssa]
    ) -> str | None:
        """An operand, ``width`` groups of elements; None if they lie in no such order."""
        first, count = elements[0], len(elements)
        if isinstance(first, IfThenElse):
            choices = [e for e in elements if isinstance(e, IfThenElse)]
            if len(choices) < count:
                return None
            try:
                cond, _ = self.integers.int_value(first.cond)
            except LaneDependent:
                return None
            if cond in ("true", "false"):
                taken = [e.a if cond == "true" else e.b for e in choices]
                return self.operand(taken, width, emitted)
            with self.memory.guarded(cond):
                one = self._group([e.a for e in choices])
            if one is None:
                return None
            other = _word([e.b for e in choices])
            chosen = self.arithmetic.select(Ssa(cond, 1, "bool"), one, other)
            return self._repeated(chosen, first.dtype, count, width)
        if isinstance(first, Const):
            if first.value == 0:
                return "zeroinitializer"
            return self._repeated(_word(elements), first.dtype, count, width)
        if isinstance(first, Cast):
            return self._of_words(elements, width, emitted)
        if not isinstance(first, Load):
            return None
        form = self.addresses.flat(first.buffer, first.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.integers.bindings.split(form)
        if lane is None or lane_c == 0:
            one = self._group(elements)
            return self._repeated(one, first.dtype, count, width) if one is not None else None
        if lane_c != count or self.memory.guards or not self._neighbours(elements):
            return None
        if lane.some is not None:
            return self._masked(first, terms, const, count, lane)
        key: LoadKey = (first.buffer, terms, const, count * width, count * width, ())
        if key not in self.memory.loads:
            pointer = self.addresses.pointer(first.buffer, terms, const)
            self.memory.loads[key] = self.memory.load_at(
                first.buffer, pointer, count * width, count * width
            )
        return self.memory.loads[key].ssa

    def _of_words(
        self, elements: Sequence[Expr], width: int, emitted: Callable[[Expr], Ssa]
    ) -> str | None:
        """Bits of neighbouring bytes of words: one shift and one mask for a whole group."""
        taken = [f for f in map(BytesOfWord.of, elements) if f is not None]
        loads = [f.word for f in taken if isinstance(f.word, Load)]
        if len(loads) < len(elements):
            return None
        first, count = loads[0], len(elements)
        places = [self.addresses.flat(w.buffer, w.indices) for w in loads]
        if places[0] is None or any(
            w.buffer is not first.buffer or p != places[0]
            for w, p in zip(loads, places, strict=True)
        ):
            return None
        shifts = [self.integers.form(f.shift) for f in taken]
        start = shifts[0]
        if start is None or any(
            s != start + constant(BYTE * i) or f.mask != taken[0].mask
            for i, (s, f) in enumerate(zip(shifts, taken, strict=True))
        ):
            return None
        word = self.memory.load(first.buffer, places[0])
        if word is None or word.width != width:
            return None
        more = None if taken[0].more is None else emitted(taken[0].more)
        key = word.ssa, f"{self.integers.int_value(taken[0].shift)[0]} {taken[0].mask} {count}"
        if key not in self._repeats:
            moved = self._shifted(word, taken[0].shift)
            mask = sum(taken[0].mask << BYTE * i for i in range(count))
            one = self._bytes(moved, mask, count, elements[0].dtype)
            if more is not None:
                kind = vector_type(elements[0].dtype, count * width)
                one = self.fn.emit(f"add {kind} {one}, {self._in_bytes(more, count, width)}")
            self._repeats[key] = one
        return self._repeats[key]

    def _in_bytes(self, numbers: Ssa, count: int, width: int) -> str:
        """The lowest byte of each lane's number, ``count`` times."""
        lanes = self.arithmetic.splat(numbers, width)
        key = lanes.ssa, f"{count} times"
        if key not in self._repeats:
            size = BYTES[lanes.dtype]
            kind = vector_type("int8", size * width)
            whole = self.fn.emit(f"bitcast {lanes.type} {lanes.ssa} to {kind}")
            places = ", ".join(f"i32 {size * lane}" for lane in range(width) for _ in range(count))
            self._repeats[key] = self.fn.emit(
                f"shufflevector {kind} {whole}, {kind} poison, <{count * width} x i32> <{places}>"
            )
        return self._repeats[key]

    def _shifted(self, word: Ssa, shift: Expr) -> Ssa:
        """Words whose lowest bits are those behind a shift."""
        bits, _ = self.integers.int_value(shift)
        if bits == "0":
            return word
        if bits.startswith("%"):
            bits = self.fn.emit(f"trunc i64 {bits} to i32")
        by = self.arithmetic.splat(Ssa(bits, 1, word.dtype), word.width)
        return word._replace(ssa=self.fn.emit(f"lshr {word.type} {word.ssa}, {by.ssa}"))

    def _bytes(self, word: Ssa, mask: int, count: int, dtype: str) -> str:
        """The lowest ``count`` bytes of words, with the bits of a mask."""
        if count < BYTES[word.dtype]:
            part = Ssa("", word.width, f"int{BYTE * count}")
            word = part._replace(ssa=self.fn.emit(f"trunc {word.type} {word.ssa} to {part.type}"))
        if mask != 2 ** (BYTE * count) - 1:
            bits = self.arithmetic.splat(Ssa(literal(mask, word.dtype), 1, word.dtype), word.width)
            word = word._replace(ssa=self.fn.emit(f"and {word.type} {word.ssa}, {bits.ssa}"))
        kind = vector_type(dtype, count * word.width)
        return self.fn.emit(f"bitcast {word.type} {word.ssa} to {kind}")

    def _masked(
        self, first: Load, terms: Terms, const: Extent, count: int, lane: Lane
    ) -> str | None:
        """Groups of the lanes that count, each loaded as one integer."""
        bits = 8 * BYTES[first.dtype] * count
        if bits not in (32, 64) or lane.some is None:
            return None
        key: LoadKey = (first.buffer, terms, const, count * lane.width, lane.some, ())
        if key not in self.memory.loads:
            pointer = self.addresses.pointer(first.buffer, terms, const)
            lanes = self.memory.masked.lanes(lane.width, lane.some)
            text = masked_load(self.declarations, f"int{bits}", lane.width, lanes, pointer)
            word, kind = Ssa(self.fn.emit(text), lane.width, f"int{bits}"), (count * lane.width)
            ssa = self.fn.emit(
                f"bitcast {word.type} {word.ssa} to {vector_type(first.dtype, kind)}"
            )
            self.memory.loads[key] = Ssa(ssa, kind, first.dtype)
        return self.memory.loads[key].ssa

    def _group(self, elements: Sequence[Expr]) -> Ssa | None:
        """Neighbours as one integer."""
        first = elements[0]
        if not isinstance(first, Load):
            return None
        form = self.addresses.flat(first.buffer, first.indices)
        if form is None or not self._neighbours(elements):
            return None
        const, terms, lane_c, _ = self.integers.bindings.split(form)
        if lane_c:
            return None
        key = (first.buffer, terms, const, _GROUP, 1, tuple(self.memory.guards))
        if key not in self.memory.loads:
            pointer = self.memory.guarded_pointer(
                first.buffer, self.addresses.pointer(first.buffer, terms, const)
            )
            nbytes = BYTES[first.dtype]
            word = Ssa("", 1, f"int{8 * nbytes * len(elements)}")
            ssa = self.fn.emit(f"load {word.type}, ptr {pointer}, align {nbytes}")
            self.memory.loads[key] = word._replace(ssa=ssa)
        return self.memory.loads[key]

    def _neighbours(self, elements: Sequence[Expr]) -> bool:
        """Whether each element follows the one before in memory."""
        loads = [e for e in elements if isinstance(e, Load)]
        forms = [self.addresses.flat(e.buffer, e.indices) for e in loads]
        start = forms[0]
        if start is None or len(loads) < len(elements):
            return False
        return all(
            form is not None
            and load.buffer is loads[0].buffer
            and form.coefficients == start.coefficients
            and form.const == start.const + i
            for i, (load, form) in enumerate(zip(loads, forms, strict=True))
        )

    def _repeated(self, group: Ssa, dtype: str, count: int, width: int) -> str:
        """One group in every lane."""
        v = self.arithmetic.splat(group, width)
        kind = vector_type(dtype, count * width)
        key = (v.ssa, kind)
        if key not in self._repeats:
            self._repeats[key] = self.fn.emit(f"bitcast {v.type} {v.ssa} to {kind}")
        return self._repeats[key]
