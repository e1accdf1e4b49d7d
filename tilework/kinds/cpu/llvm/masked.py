"""Vectors of memory of which some lanes count: what is loaded and stored of them."""

from __future__ import annotations

from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.lanes import Active, Mask
from tilework.kinds.cpu.llvm.masks import first_lanes, masked_load, masked_store, moves, plain_type
from tilework.kinds.cpu.llvm.ssa import BYTES, LLVM_TYPE, Ssa, vector_type


class MaskedMoves:
    """Emits loads and stores of some lanes, under a mask where the CPU has such moves."""

    def __init__(self, fn: Function, declarations: Declarations) -> None:
        self.fn, self.declarations = fn, declarations
        self._predicates: dict[Mask, str] = {}
        self._place = ""

    def forget(self) -> None:
        """Start of a new basic block: predicates of another one may not be there."""
        self._predicates.clear()

    def lanes(self, width: int, active: Active) -> str:
        """A predicate for each lane: whether it counts."""
        if isinstance(active, int):
            return first_lanes(width, active)
        value = active.value
        if value.dtype == "bool":
            return value.ssa
        predicates = self._predicates.get(active)
        if predicates is None:
            text = f"icmp slt {value.type} {value.ssa}, zeroinitializer"
            predicates = self._predicates[active] = self.fn.emit(text)
        return predicates

    def counts(self, some: Mask, i: int) -> str:
        """Whether one lane counts, as a predicate."""
        text = f"icmp sgt i64 {some.count}, {some.offset + i}"
        return self.fn.hoist(some.depth, text, text)

    def nowhere(self) -> str:
        """A place that nobody reads."""
        if not self._place:
            self._place = self.fn.name()
            self.fn.blocks[0].hoisted.insert(0, f"  {self._place} = alloca i64")
        return self._place

    def place_of(self, some: Mask, i: int, pointer: str, offset: int) -> str:
        """Where a lane's element is: of one that does not count, nowhere."""
        at = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer
        return self.fn.emit(f"select i1 {self.counts(some, i)}, ptr {at}, ptr {self.nowhere()}")

    def load(self, dtype: str, pointer: str, width: int, active: Active) -> str:
        """A vector whose lanes that count are loaded."""
        plain = plain_type(dtype)
        as_plain, kind = vector_type(plain, width), vector_type(dtype, width)
        if isinstance(active, Mask) and not self.moves(dtype):
            ssa = self._loaded_lanes(plain, pointer, width, active)
        else:
            lanes = self.lanes(width, active)
            ssa = self.fn.emit(masked_load(self.declarations, plain, width, lanes, pointer))
        return ssa if as_plain == kind else self.fn.emit(f"bitcast {as_plain} {ssa} to {kind}")

    def moves(self, dtype: str) -> bool:
        """Whether the CPU moves elements of a type under a mask."""
        return moves(dtype, self.declarations.features)

    def load_where(self, dtype: str, pointer: str, there: Ssa) -> Ssa:
        """A vector of the elements for which a predicate holds; the others become 0."""
        text = masked_load(self.declarations, dtype, there.width, there.ssa, pointer)
        return Ssa(self.fn.emit(text), there.width, dtype)

    def _loaded_lanes(self, dtype: str, pointer: str, width: int, some: Mask) -> str:
        """Neighbours one by one, without a branch."""
        ssa, kind, one = "poison", vector_type(dtype, width), LLVM_TYPE[dtype]
        for i in range(width):
            at = self.place_of(some, i, pointer, i * BYTES[dtype])
            element = self.fn.emit(f"load {one}, ptr {at}, align {BYTES[dtype]}")
            ssa = self.fn.emit(f"insertelement {kind} {ssa}, {one} {element}, i32 {i}")
        return ssa

    def store(self, dtype: str, pointer: str, v: Ssa, active: Active) -> None:
        """Store the lanes of a vector that count; ``dtype`` is that of memory."""
        plain = plain_type(dtype)
        kind = vector_type(plain, v.width)
        if kind != v.type:
            v = Ssa(self.fn.emit(f"bitcast {v.type} {v.ssa} to {kind}"), v.width, plain)
        if isinstance(active, Mask) and not self.moves(plain):
            self._store_lanes(plain, pointer, v, active)
            return
        lanes = self.lanes(v.width, active)
        self.fn.line(masked_store(self.declarations, plain, v, lanes, pointer))

    def _store_lanes(self, dtype: str, pointer: str, v: Ssa, some: Mask) -> None:
        """Neighbours one by one, without a branch."""
        one = LLVM_TYPE[dtype]
        for i in range(v.width):
            element = self.fn.emit(f"extractelement {v.type} {v.ssa}, i32 {i}")
            at = self.place_of(some, i, pointer, i * BYTES[dtype])
            self.fn.line(f"store {one} {element}, ptr {at}, align {BYTES[dtype]}")
