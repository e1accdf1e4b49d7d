"""Loads and stores of generated code, and what they share: guards, registers, lanes.

`value` is what a subclass adds: expressions. Loads need it for indices that data decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.convert import convert
from tilework.kinds.cpu.llvm.masks import masked_load, masked_store
from tilework.kinds.cpu.llvm.math_functions import MathLibrary
from tilework.kinds.cpu.llvm.scalars import Lane, LaneDependent, Scalars, is_index_arithmetic
from tilework.kinds.cpu.llvm.types import BYTES, Value, vector_type
from tilework.lower.ir import Buffer, Load
from tilework.te.affine import Linear
from tilework.te.expr import Axis, Expr, walk

_PREFETCH_BYTES = 8192
LoadKey = tuple[Buffer, tuple[tuple[str, int, int], ...], int, int, int, tuple[str, ...]]
"""Buffer, dynamic index terms, constant index, width, active lanes, guards."""


class Memory(Arithmetic):
    """Emits loads and stores; keeps the loads of the current straight-line code."""

    def __init__(self, scalars: Scalars, math: MathLibrary) -> None:
        super().__init__(scalars.fn, math)
        self.scalars = scalars
        self.lane_var: Axis | None = None
        self.registers: dict[tuple[Buffer, int], Value] = {}
        self._loads: dict[LoadKey, Value] = {}
        self._guards: list[str] = []
        self._integers: dict[int, tuple[Expr, bool]] = {}

    def value(self, e: Expr) -> Value:
        """Emit ``e``; a vector where it depends on the vector loop, else a scalar."""
        raise NotImplementedError

    # -- state of straight-line code --------------------------------------------------------

    def forget(self) -> None:
        """Start of a new basic block: nothing loaded so far may be reused."""
        super().forget()
        self._loads.clear()

    def invalidate(self, buffer: Buffer) -> None:
        """A store to ``buffer`` makes earlier loads of it stale."""
        stale = [k for k in self._loads if k[0] is buffer]
        for k in stale:
            del self._loads[k]

    def _varies(self, e: Expr) -> bool:
        """Whether the vector loop's variable occurs in the expression."""
        bound = self.scalars.env.get(self.lane_var) if self.lane_var is not None else None
        return isinstance(bound, Lane) and any(n is self.lane_var for n in _deep(e))

    def _guarded(self, cond: str, e: Expr) -> Value:
        self._guards.append(cond)
        try:
            return self.value(e)
        finally:
            self._guards.pop()

    def _by_lane(self, e: Expr) -> Value:
        """Emit ``e`` once per lane of the vector loop and collect the results."""
        var = self.lane_var
        assert var is not None
        lane = self.scalars.env[var]
        assert isinstance(lane, Lane)
        out: Value | None = None
        for i in range(lane.active):
            self.scalars.env[var] = lane.offset + i
            part = self.value(e)
            into = Value("poison" if out is None else out.ssa, lane.width, part.dtype)
            text = f"insertelement {into.type} {into.ssa}, {part.type} {part.ssa}, i32 {i}"
            out = Value(self.fn.emit(text), lane.width, part.dtype)
        self.scalars.env[var] = lane
        assert out is not None
        return out

    def _integer_only(self, e: Expr) -> bool:
        """Whether a predicate or index uses loop variables and literals alone."""
        hit = self._integers.get(id(e))
        if hit is None:
            hit = self._integers[id(e)] = (e, all(map(is_index_arithmetic, walk(e))))
        return hit[1]

    # -- memory -----------------------------------------------------------------------------

    def load(self, e: Load) -> Value:
        """A load: of a register element, a scalar, a whole vector, or element by element."""
        form = self.scalars.flat(e, e.buffer, e.indices)
        if form is None:
            return self._load_general(e)
        const, terms, lane_c, lane = self.scalars.split(form)
        width = lane.width if lane is not None and lane_c == 1 else 1
        if e.buffer.scope == "register":
            return self._register(e.buffer, const, width)
        if lane is not None and lane_c not in (0, 1):
            return self._by_lane(e)
        active = lane.active if lane is not None and lane_c == 1 else 1
        if self._guards and active > e.buffer.size:
            return self._by_lane(e)  # a whole vector would not even fit where a guard sends it
        found = self._known(e)
        if found is None:
            pointer = self.scalars.pointer(e.buffer, terms, const)
            key = (e.buffer, terms, const, width, active, tuple(self._guards))
            found = self._loads[key] = self._load_at(e.buffer, pointer, width, active)
        return found

    def _register(self, buffer: Buffer, element: int, width: int) -> Value:
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
        return Value(self.fn.emit(text), width, found.dtype)

    def _known(self, e: Load) -> Value | None:
        """The value of a load made before in this block, under the same or weaker guards."""
        form = self.scalars.flat(e, e.buffer, e.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.scalars.split(form)
        if lane is not None and lane_c not in (0, 1):
            return None
        vector = lane is not None and lane_c == 1
        width, active = (lane.width, lane.active) if lane is not None and vector else (1, 1)
        for depth in range(len(self._guards) + 1):
            guards = tuple(self._guards[:depth])
            found = self._loads.get((e.buffer, terms, const, width, active, guards))
            if found is not None:
                return found
        return None

    def _load_general(self, e: Load) -> Value:
        """A load at indices of which some are no linear form: divided ones, or read from memory.

        A vector where the other indices move along one, else a scalar or element by element.
        """
        if all(self._integer_only(i) for i in e.indices):
            try:
                return self._load_at(e.buffer, self.scalars.element(e.buffer, e.indices), 1, 1)
            except LaneDependent:
                pass
        rest = Linear({}, 0)
        others: list[tuple[Expr, int]] = []
        for index, stride in zip(e.indices, e.buffer.strides, strict=True):
            form = self.scalars.form(index)
            if form is None:
                others.append((index, stride))
            else:
                rest = rest + form.scale(stride)
        const, terms, lane_c, lane = self.scalars.split(rest)
        width, active = (lane.width, lane.active) if lane is not None and lane_c else (1, 1)
        if lane_c not in (0, 1) or any(self._varies(index) for index, _ in others):
            return self._by_lane(e)
        if self._guards and active > e.buffer.size:
            return self._by_lane(e)
        pointer = self.scalars.pointer(e.buffer, terms, const)
        for index, stride in others:
            at = self._position(index)
            offset = self.fn.emit(f"mul nsw i64 {at}, {stride * BYTES[e.buffer.dtype]}")
            pointer = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self._load_at(e.buffer, pointer, width, active)

    def _position(self, index: Expr) -> str:
        """An index that is the same in all lanes, in 64 bits."""
        if self._integer_only(index):
            return self.scalars.int_value(index)[0]
        return convert(self, self.value(index), "int64").ssa

    def _prefetch(self, pointer: str) -> None:
        """Ask L2 for the line that a stream of loads reaches some hundred cycles later."""
        self.math.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        ahead = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {_PREFETCH_BYTES}")
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 2, i32 1)")

    def claim(self, buffer: Buffer, indices: tuple[Expr, ...], key: object) -> None:
        """Fetch the line of an element that is about to be written, to be written."""
        form = self.scalars.flat(key, buffer, indices)
        if form is None:
            return
        const, terms, _, _ = self.scalars.split(form)
        pointer = self.scalars.pointer(buffer, terms, const)
        self.math.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.fn.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 1, i32 3, i32 1)")

    def _load_at(self, buffer: Buffer, pointer: str, width: int, active: int) -> Value:
        pointer = self._guarded_pointer(buffer, pointer)
        if buffer.streamed and width * BYTES[buffer.dtype] == LINE_BYTES:
            self._prefetch(pointer)
        kind = vector_type(buffer.dtype, width)
        if active < width:
            ssa = self.fn.emit(masked_load(self.math, kind, width, active, pointer))
            return Value(ssa, width, buffer.dtype)
        ssa = self.fn.emit(f"load {kind}, ptr {pointer}, align {BYTES[buffer.dtype]}")
        if buffer.dtype == "bool":
            zero = "0" if width == 1 else "zeroinitializer"
            return Value(self.fn.emit(f"icmp ne {kind} {ssa}, {zero}"), width, "bool")
        return Value(ssa, width, buffer.dtype)

    def _guarded_pointer(self, buffer: Buffer, pointer: str) -> str:
        """The pointer, or the buffer's start where a guard does not hold."""
        for guard in self._guards:
            base = self.scalars.base[buffer]
            pointer = self.fn.emit(f"select i1 {guard}, ptr {pointer}, ptr {base}")
        return pointer

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], key: object, v: Value) -> None:
        """Store a value at the current point(s) of the loops."""
        form = self.scalars.flat(key, buffer, indices)
        if form is None:
            self._store_at(buffer, self.scalars.element(buffer, indices), v)
            self.invalidate(buffer)
            return
        const, terms, lane_c, lane = self.scalars.split(form)
        width = lane.width if lane is not None else 1
        v = self.splat(v, width) if lane_c else v
        if buffer.scope == "register":
            self.registers[buffer, const] = self.splat(v, width)
            return
        if lane is not None and lane_c != 1:
            for i in range(lane.active):
                one = self.fn.emit(f"extractelement {v.type} {v.ssa}, i32 {i}")
                p = self.scalars.pointer(buffer, terms, const + i * lane_c)
                self._store_at(buffer, p, Value(one, 1, v.dtype))
        else:
            pointer = self.scalars.pointer(buffer, terms, const)
            if lane is not None and lane.active < v.width:
                self.fn.line(masked_store(self.math, v, lane.active, pointer))
            else:
                self._store_at(buffer, pointer, v)
        self.invalidate(buffer)

    def _store_at(self, buffer: Buffer, pointer: str, v: Value) -> None:
        if v.dtype == "bool":
            kind = vector_type("bool", v.width)
            v = Value(self.fn.emit(f"zext {v.type} {v.ssa} to {kind}"), v.width, "int8")
        self.fn.line(f"store {v.type} {v.ssa}, ptr {pointer}, align {BYTES[buffer.dtype]}")


def _deep(e: Expr) -> Iterator[Expr]:
    """All nodes of an expression, indices of loads included."""
    for n in walk(e):
        yield n
        if isinstance(n, Load):
            for i in n.indices:
                yield from _deep(i)
