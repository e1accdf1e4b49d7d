"""Loads and stores, under guards: what an access reads where it may not be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilework.index.form import Form
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.llvm.addresses import Addresses
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.masks import masked_load, masked_store
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, vector_type
from tilework.lower.ir import Buffer, Load
from tilework.te.expr import Axis, Expr

_PREFETCH_BYTES = 8192
_PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
LoadKey = tuple[Buffer, Terms, int, int, int, tuple[str, ...]]
"""Buffer, dynamic index terms, constant index, width, active lanes, guards."""


class LoadStore:
    """Emits loads and stores.

    Attributes:
        registers: values of register buffers, by their first element.
        guards: conditions under which the code being emitted counts, outermost first.
        loads: loads of the current straight-line code; `Dots` keeps its own here, too.
    """

    def __init__(self, addresses: Addresses, arithmetic: Arithmetic) -> None:
        self.addresses = addresses
        self.arithmetic = arithmetic
        self.bindings = addresses.integers.bindings
        self.fn = arithmetic.fn
        self.declarations = arithmetic.declarations
        self.registers: dict[tuple[Buffer, int], Ssa] = {}
        self.guards: list[str] = []
        self.loads: dict[LoadKey, Ssa] = {}

    # -- state of straight-line code --------------------------------------------------------

    def forget(self) -> None:
        """Start of a new basic block: nothing loaded so far may be reused."""
        self.loads.clear()

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
        width, active = (lane.width, lane.active) if lane is not None and lane_c == 1 else (1, 1)
        if buffer.scope == "register":
            return self._register(buffer, const, width)
        if lane_c not in (0, 1) or not self.fits(buffer, active):
            return None
        found = self._loaded(buffer, terms, const, width, active)
        if found is None:
            pointer = self.addresses.pointer(buffer, terms, const)
            key = (buffer, terms, const, width, active, tuple(self.guards))
            found = self.loads[key] = self.load_at(buffer, pointer, width, active)
        return found

    def fits(self, buffer: Buffer, active: int) -> bool:
        """Whether so many elements may be loaded at once: also from where a guard sends them."""
        return not self.guards or active <= buffer.size

    def _register(self, buffer: Buffer, element: int, width: int) -> Ssa:
        """Register elements: the vector that starts there, or a part of one."""
        back = 0
        while (buffer, element - back) not in self.registers:
            back += 1
        found = self.registers[buffer, element - back]
        if found.width == width:
            return found
        if width == 1:
            text = f"extractelement {found.type} {found.ssa}, i32 {back}"
        else:
            lanes = ", ".join(f"i32 {back + i}" for i in range(width))
            text = (
                f"shufflevector {found.type} {found.ssa}, {found.type} poison, "
                f"<{width} x i32> <{lanes}>"
            )
        return Ssa(self.fn.emit(text), width, found.dtype)

    def known(self, e: Load) -> Ssa | None:
        """The value of a load made before in this block, under the same or weaker guards."""
        form = self.addresses.flat(e, e.buffer, e.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.bindings.split(form)
        if lane_c not in (0, 1):
            return None
        width, active = (lane.width, lane.active) if lane is not None and lane_c == 1 else (1, 1)
        return self._loaded(e.buffer, terms, const, width, active)

    def _loaded(
        self, buffer: Buffer, terms: Terms, const: int, width: int, active: int
    ) -> Ssa | None:
        for depth in range(len(self.guards) + 1):
            guards = tuple(self.guards[:depth])
            found = self.loads.get((buffer, terms, const, width, active, guards))
            if found is not None:
                return found
        return None

    def load_at(self, buffer: Buffer, pointer: str, width: int, active: int) -> Ssa:
        """A load of ``width`` elements, of which the first ``active`` count."""
        pointer = self.guarded_pointer(buffer, pointer)
        if buffer.streamed and width * BYTES[buffer.dtype] == LINE_BYTES:
            self._prefetch(pointer)
        kind = vector_type(buffer.dtype, width)
        if active < width:
            ssa = self.fn.emit(masked_load(self.declarations, kind, width, active, pointer))
            return Ssa(ssa, width, buffer.dtype)
        ssa = self.fn.emit(f"load {kind}, ptr {pointer}, align {BYTES[buffer.dtype]}")
        if buffer.dtype == "bool":
            zero = "0" if width == 1 else "zeroinitializer"
            return Ssa(self.fn.emit(f"icmp ne {kind} {ssa}, {zero}"), width, "bool")
        return Ssa(ssa, width, buffer.dtype)

    def guarded_pointer(self, buffer: Buffer, pointer: str) -> str:
        """The pointer, or the buffer's start where a guard does not hold."""
        for guard in self.guards:
            base = self.bindings.base[buffer]
            pointer = self.fn.emit(f"select i1 {guard}, ptr {pointer}, ptr {base}")
        return pointer

    def _prefetch(self, pointer: str) -> None:
        """Ask L2 for the line that a stream of loads reaches some hundred cycles later."""
        self.declarations.declare(_PREFETCH)
        ahead = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {_PREFETCH_BYTES}")
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 2, i32 1)")

    # -- stores -----------------------------------------------------------------------------

    def claim(self, buffer: Buffer, indices: tuple[Expr, ...], key: object) -> None:
        """Fetch the line of an element that is about to be written, to be written."""
        form = self.addresses.flat(key, buffer, indices)
        if form is None:
            return
        const, terms, _, _ = self.bindings.split(form)
        pointer = self.addresses.pointer(buffer, terms, const)
        self.declarations.declare(_PREFETCH)
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 1, i32 3, i32 1)")

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], key: object, v: Ssa) -> None:
        """Store a value at the current point(s) of the loops."""
        form = self.addresses.flat(key, buffer, indices)
        if form is None:
            self._store_at(buffer, self.addresses.element(buffer, indices), v)
            self.invalidate(buffer)
            return
        const, terms, lane_c, lane = self.bindings.split(form)
        width = lane.width if lane is not None else 1
        v = self.arithmetic.splat(v, width) if lane_c else v
        if buffer.scope == "register":
            self.registers[buffer, const] = self.arithmetic.splat(v, width)
            return
        if lane is not None and lane_c != 1:
            for i in range(lane.active):
                one = self.fn.emit(f"extractelement {v.type} {v.ssa}, i32 {i}")
                p = self.addresses.pointer(buffer, terms, const + i * lane_c)
                self._store_at(buffer, p, Ssa(one, 1, v.dtype))
        else:
            pointer = self.addresses.pointer(buffer, terms, const)
            if lane is not None and lane.active < v.width:
                self.fn.line(masked_store(self.declarations, v, lane.active, pointer))
            else:
                self._store_at(buffer, pointer, v)
        self.invalidate(buffer)

    def _store_at(self, buffer: Buffer, pointer: str, v: Ssa) -> None:
        if v.dtype == "bool":
            kind = vector_type("bool", v.width)
            v = Ssa(self.fn.emit(f"zext {v.type} {v.ssa} to {kind}"), v.width, "int8")
        self.fn.line(f"store {v.type} {v.ssa}, ptr {pointer}, align {BYTES[buffer.dtype]}")
