"""Loads and stores, under guards: what an access reads where it may not be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilework.index.extents import Extent, known
from tilework.index.form import Form
from tilework.index.symbols import range_of
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.llvm.addresses import Addresses
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.lanes import Active, Lane
from tilework.kinds.cpu.llvm.masked import MaskedMoves
from tilework.kinds.cpu.llvm.registers import Registers
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, vector_type
from tilework.lower.ir import Buffer, Load
from tilework.te.expr import Axis, Expr

_PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
LoadKey = tuple[Buffer, Terms, Extent, int, Active, tuple[str, ...]]
"""Buffer, dynamic index terms, constant index, width, active lanes, guards."""


class LoadStore:
    """Emits loads and stores.

    Attributes:
        masked: moves of vectors of which some lanes count.
        registers: what register buffers hold.
        guards: conditions under which the code being emitted counts, outermost first.
        loads: loads of the current straight-line code; `Dots` keeps its own here, too.
    """

    def __init__(self, addresses: Addresses, arithmetic: Arithmetic) -> None:
        self.addresses = addresses
        self.arithmetic = arithmetic
        self.bindings = addresses.integers.bindings
        self.fn = arithmetic.fn
        self.declarations = arithmetic.declarations
        self.masked = MaskedMoves(self.fn, self.declarations)
        self.registers = Registers(arithmetic, self.masked)
        self.guards: list[str] = []
        self.loads: dict[LoadKey, Ssa] = {}

    # -- state of straight-line code --------------------------------------------------------

    def forget(self) -> None:
        """Start of a new basic block: nothing loaded so far may be reused."""
        self.loads.clear()
        self.masked.forget()
        self.registers.one_by_one.forget()

    def invalidate(self, buffer: Buffer) -> None:
        """A store to ``buffer`` makes earlier loads of it stale."""
        stale = [k for k in self.loads if k[0] is buffer]
        for k in stale:
            del self.loads[k]

    @contextmanager
    def guarded(self, cond: str) -> Iterator[None]:
        """What is loaded within counts where ``cond`` holds, and must be harmless elsewhere."""
        self.guards.append(cond)
        try:
            yield
        finally:
            self.guards.pop()

    # -- loads ------------------------------------------------------------------------------

    def load(self, buffer: Buffer, form: Form[Axis]) -> Ssa | None:
        """A load at linear indices: of a register element, a scalar, or a whole vector.

        None where the lanes of a vector loop must load one by one.
        """
        const, terms, lane_c, lane = self.bindings.split(form)
        width, active = extent_of(lane if lane_c == 1 else None)
        if buffer.scope == "register":
            return self.registers.read(buffer, const, width)
        if lane_c not in (0, 1) or (self.guards and not self.fits(buffer, width, active)):
            return None
        key = (buffer, terms, const, width, active, tuple(self.guards))
        value = self.loads.get(key) or (self.guards and self._loaded(*key[:-1]))
        if not value:
            pointer = self.addresses.pointer(buffer, terms, const)
            value = self.loads[key] = self.load_at(buffer, pointer, width, active)
        return value

    def fits(self, buffer: Buffer, width: int, active: Active) -> bool:
        """Whether so many elements may be loaded at once: also from where a guard sends them."""
        most = active if isinstance(active, int) else width
        return not self.guards or most <= max(range_of(buffer.size)[0], 1)

    def known(self, e: Load) -> Ssa | None:
        """The value of a load made before in this block, under the same or weaker guards."""
        form = self.addresses.flat(e.buffer, e.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.bindings.split(form)
        if lane_c not in (0, 1):
            return None
        width, active = extent_of(lane if lane_c == 1 else None)
        return self._loaded(e.buffer, terms, const, width, active)

    def _loaded(
        self, buffer: Buffer, terms: Terms, const: Extent, width: int, active: Active
    ) -> Ssa | None:
        for depth in range(len(self.guards) + 1):
            guards = tuple(self.guards[:depth])
            value = self.loads.get((buffer, terms, const, width, active, guards))
            if value is not None:
                return value
        return None

    def table(self, buffer: Buffer, width: int) -> list[Ssa]:
        """All elements of a small buffer, in vectors of ``width``."""
        out = []
        for first in range(0, known(buffer.size), width):
            key: LoadKey = (buffer, (), first, width, width, ())
            if key not in self.loads:
                pointer = self.addresses.pointer(buffer, (), first)
                self.loads[key] = self.load_at(buffer, pointer, width, width)
            out.append(self.loads[key])
        return out

    def load_at(self, buffer: Buffer, pointer: str, width: int, active: Active) -> Ssa:
        """A load of ``width`` elements, of which the first ``active`` count."""
        pointer = self.guarded_pointer(buffer, pointer)
        if buffer.streamed != 0 and width * BYTES[buffer.dtype] == LINE_BYTES:
            self.prefetch(pointer, buffer.streamed)
        kind = vector_type(buffer.dtype, width)
        if active != width:
            ssa = self.masked.load(buffer.dtype, pointer, width, active)
        else:
            ssa = self.fn.emit(f"load {kind}, ptr {pointer}, align {BYTES[buffer.dtype]}")
        if buffer.dtype == "bool":
            zero = "0" if width == 1 else "zeroinitializer"
            return Ssa(self.fn.emit(f"icmp ne {kind} {ssa}, {zero}"), width, "bool")
        return Ssa(ssa, width, buffer.dtype)

    def guarded_pointer(self, buffer: Buffer, pointer: str) -> str:
        """The pointer, or one that may be read where a guard does not hold: the buffer's start."""
        for guard in self.guards:
            base = self.bindings.base[buffer]
            if range_of(buffer.size)[0] < 1:  # there may be no element
                base = self.masked.nowhere()
            pointer = self.fn.emit(f"select i1 {guard}, ptr {pointer}, ptr {base}")
        return pointer

    def prefetch(self, pointer: str, distance: int | Expr) -> None:
        """Ask L2 for the line that a stream of loads reaches so many bytes later.

        Where a run says that it does not pay, the line that is loaded now: no branch, no traffic.
        """
        self.declarations.declare(_PREFETCH)
        if isinstance(distance, Expr):
            by, _ = self.addresses.integers.int_value(distance)
        else:
            by = str(distance)
        ahead = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {by}")
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 2, i32 1)")

    # -- stores -----------------------------------------------------------------------------

    def claim(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        """Fetch the line of an element that is about to be written, to be written."""
        form = self.addresses.flat(buffer, indices)
        if form is None:
            return
        const, terms, _, _ = self.bindings.split(form)
        pointer = self.addresses.pointer(buffer, terms, const)
        self.declarations.declare(_PREFETCH)
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 1, i32 3, i32 1)")

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], v: Ssa) -> None:
        """Store a value at the current point(s) of the loops."""
        form = self.addresses.flat(buffer, indices)
        if form is None:
            self._store_at(buffer, self.addresses.element(buffer, indices), v)
            self.invalidate(buffer)
            return
        const, terms, lane_c, lane = self.bindings.split(form)
        width = lane.width if lane is not None else 1
        v = self.arithmetic.splat(v, width) if lane_c != 0 else v
        if buffer.scope == "register":
            self.registers.keep(buffer, const, self.arithmetic.splat(v, width), lane)
            return
        if lane is not None and lane_c != 1:
            self._store_lanes(buffer, terms, const, lane_c, lane, v)
        else:
            pointer = self.addresses.pointer(buffer, terms, const)
            idle = lane.idle if lane is not None and v.width > 1 else None
            self._store_at(buffer, pointer, v, idle)
        self.invalidate(buffer)

    def _store_lanes(
        self, buffer: Buffer, terms: Terms, const: Extent, step: Extent, lane: Lane, v: Ssa
    ) -> None:
        """Lanes one by one, ``step`` elements apart; those that do not count go nowhere."""
        for i in range(lane.active):
            one = self.fn.emit(f"extractelement {v.type} {v.ssa}, i32 {i}")
            p = self.addresses.pointer(buffer, terms, const + i * step)
            if lane.some is not None:
                p = self.masked.place_of(lane.some, i, p, 0)
            self._store_at(buffer, p, Ssa(one, 1, v.dtype))

    def _store_at(
        self, buffer: Buffer, pointer: str, v: Ssa, active: Active | None = None
    ) -> None:
        if v.dtype == "bool":
            kind = vector_type("bool", v.width)
            v = Ssa(self.fn.emit(f"zext {v.type} {v.ssa} to {kind}"), v.width, "int8")
        if active is None:
            self.fn.line(f"store {v.type} {v.ssa}, ptr {pointer}, align {BYTES[buffer.dtype]}")
        else:
            self.masked.store(buffer.dtype, pointer, v, active)


def extent_of(lane: Lane | None) -> tuple[int, Active]:
    """Elements of an access and those of them that count, where it moves along the lanes."""
    if lane is None:
        return 1, 1
    return lane.width, lane.active if lane.some is None else lane.some
