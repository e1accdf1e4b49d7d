"""Code of one region: statements of the loop program become blocks of an LLVM function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise

from tilework.errors import ScheduleError
from tilework.index.extents import Extent
from tilework.index.symbols import range_of
from tilework.kinds.cpu.llvm.across import Across
from tilework.kinds.cpu.llvm.addresses import Addresses
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.bindings import Bindings, Dynamic
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.dots import Dots
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.extents import RegionSymbols
from tilework.kinds.cpu.llvm.facts import Facts
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.integers import Integers
from tilework.kinds.cpu.llvm.lanes import Lane, pieces, whole_vectors
from tilework.kinds.cpu.llvm.load_store import LoadStore
from tilework.kinds.cpu.llvm.masks import maskable, some_lanes
from tilework.kinds.cpu.llvm.matrix_unit import MatrixUnit
from tilework.kinds.cpu.llvm.order import by_element
from tilework.kinds.cpu.llvm.saturated import Saturated
from tilework.kinds.cpu.llvm.scattered import scattered
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa
from tilework.kinds.cpu.llvm.updates import ExpandedNest, Updates, reduces
from tilework.kinds.cpu.llvm.used import used_buffers
from tilework.kinds.cpu.llvm.weave import beside, woven
from tilework.lower import ir
from tilework.te.expr import Axis, Expr, walk

_REGISTERS, _TOGETHER = 32, 4
"""Registers of 512 bits, and the most loads of neighbouring vectors that LLVM brings together."""
_APART = 'fence syncscope("singlethread") acquire'
"""No load is moved across it. It is no instruction."""


class RegionCode:
    """Generates the function SYMBOL of one region.

    For one core ``void SYMBOL(bases, tid, threads)``, which runs a thread's share of the parallel
    iterations; for several ``void SYMBOL(bases, start, stop, tid)``, which runs those from
    ``start`` up to ``stop``: the signature that `tilework.kinds.cpu.llvm.pool` calls. ``bases``
    holds the base pointers of `used_buffers`, in order, then the distance in bytes between the
    thread-local buffers of neighbouring threads, and the values of ``symbols``.

    Attributes:
        symbolic: whether a run brings extents. Then branches compute on their own what they need:
            there are many, for all sizes that a last tile may have.
        symbols: those that the code asks for, in the order in which it did.
    """

    def __init__(
        self,
        region: ir.Region,
        vector_bits: int,
        declarations: Declarations,
        several: bool,
        symbolic: bool,
    ) -> None:
        self.region, self.vector_bits = region, vector_bits
        self.several, self.symbolic = several, symbolic
        given = "i64 %start, i64 %stop, i64 %tid" if several else "i64 %tid, i64 %nt"
        self.fn = Function(f"define void @SYMBOL(ptr %bases, {given}) #0")
        self.bindings = Bindings()
        symbols = RegionSymbols(self.fn, len(used_buffers(region.body)) + 1)
        self.symbols = symbols.places
        self.integers = Integers(self.fn, self.bindings, symbols.value)
        self.addresses = Addresses(self.integers)
        self.arithmetic = Arithmetic(self.fn, declarations)
        self.memory = LoadStore(self.addresses, self.arithmetic)
        self.dots = Dots(self.memory, self.arithmetic)
        self.matrix = MatrixUnit(self.memory, region.body)
        self.expressions = Expressions(self.memory, self.dots, self.arithmetic)
        self.updates = Updates(self.expressions)
        self.saturated = Saturated(self.expressions)
        self.across = Across(self.expressions, vector_bits // 32)
        self._facts, self._weaves = Facts(), False
        self._besides: dict[int, tuple[ir.For, int]] = {}
        self._ends: list[int] = []  # of stores, in the block
        self._registers: dict[int, tuple[ir.Stmt, set[ir.Buffer]]] = {}
        self._lane_counts: dict[int, tuple[ir.For, int]] = {}
        self._masked = vector_bits == 512 and maskable(region.body)
        stores = [s for s in ir.walk_stmts(region.body) if isinstance(s, ir.Store)]
        self.bindings.written = frozenset(s.buffer for s in stores)
        self._widest = max((BYTES[b.dtype] for b in self.bindings.written), default=4)
        self._bind_buffers()

    def text(self) -> str:
        """The function's IR."""
        self.matrix.begin()
        if self.region.parallel:
            self._parallel()
        else:
            self._stmt(self.region.body)
        self.matrix.end()
        self.fn.line("ret void")
        return self.fn.text()

    # -- set-up -----------------------------------------------------------------------------

    def _bind_buffers(self) -> None:
        entry = self.fn.homes[0].hoisted
        buffers = used_buffers(self.region.body)
        if any(b.scope == "thread" for b in buffers):
            at, step, skip = self.fn.name(), self.fn.name(), self.fn.name()
            entry.append(f"  {at} = getelementptr ptr, ptr %bases, i64 {len(buffers)}")
            entry.append(f"  {step} = load i64, ptr {at}")
            entry.append(f"  {skip} = mul i64 %tid, {step}")
        for n, buffer in enumerate(buffers):
            slot, name = self.fn.name(), self.fn.name()
            entry.append(f"  {slot} = getelementptr ptr, ptr %bases, i64 {n}")
            entry.append(f"  {name} = load ptr, ptr {slot}")
            if buffer.scope == "thread":
                own = self.fn.name()
                entry.append(f"  {own} = getelementptr i8, ptr {name}, i64 {skip}")
                name = own
            self.bindings.base[buffer] = name

    def _parallel(self) -> None:
        """Loop over the iterations of the fused parallel loops that are this call's."""
        fn, loops = self.fn, self.region.parallel
        start, stop = ("%start", "%stop") if self.several else self._share()
        some = fn.emit(f"icmp ult i64 {start}, {stop}")
        head, done = fn.label("par"), fn.label("done")
        before = fn.block.label
        fn.line(f"br i1 {some}, label %{head}, label %{done}")
        block = fn.open_loop(head)
        i, following = fn.name(), fn.name()
        rest = i
        for k, var in enumerate(reversed(loops)):
            if k == len(loops) - 1:
                self.bindings.bind(var, Dynamic(rest, fn.depth))
                break
            mod, quotient = fn.name(), fn.name()
            extent = self.integers.literal(var.extent)
            block.hoisted.append(f"  {mod} = urem i64 {rest}, {extent}")
            block.hoisted.append(f"  {quotient} = udiv i64 {rest}, {extent}")
            self.bindings.bind(var, Dynamic(mod, fn.depth))
            rest = quotient
        self._stmt(self.region.body)
        fn.line(f"{following} = add nuw nsw i64 {i}, 1")
        more = fn.emit(f"icmp ult i64 {following}, {stop}")
        latch = fn.block.label
        fn.line(f"br i1 {more}, label %{head}, label %{done}")
        block.phis.append(f"  {i} = phi i64 [{start}, %{before}], [{following}, %{latch}]")
        fn.close_loop()
        fn.begin(done)

    def _share(self) -> tuple[str, str]:
        """A thread's contiguous share of the iterations."""
        total = self.integers.literal(self.region.blocks)
        low = self.fn.emit(f"mul i64 %tid, {total}")
        start = self.fn.emit(f"udiv i64 {low}, %nt")
        high = self.fn.emit(f"add i64 {low}, {total}")
        return start, self.fn.emit(f"udiv i64 {high}, %nt")

    # -- statements -------------------------------------------------------------------------

    def _stmt(self, s: ir.Stmt) -> None:
        match s:
            case ir.Store():  # most statements, and the match takes its cases in order
                if not self.updates.emitted(s):
                    self.memory.registers.one_by_one.begin(s)
                    self.memory.store(s.buffer, s.indices, self.expressions.value(s.value))
                self._ends.append(len(self.fn.block.body))
            case ir.Seq():
                for part in s.stmts:
                    self._stmt(part)
            case ir.Claim():
                self.memory.claim(s.buffer, s.indices)
            case ir.Matrix():
                self.matrix.emit(s)
            case ir.For(kind="unroll" | "vector") if not self._weaves and self._beside(s):
                self._woven(s)
            case ir.For(kind="unroll") if not scattered(s, self.addresses):
                self._expanded(s)
            case ir.For(kind="vector"):
                self._vector(s)
            case ir.For():
                self._serial(s)
            case ir.If():
                self._if(s)
            case ir.Let():
                ssa, depth = self.integers.int_value(s.value)
                known = not ssa.startswith("%")
                self.bindings.bind(s.var, int(ssa) if known else Dynamic(ssa, depth))
                self._stmt(s.body)
            case _:
                raise TypeError(f"no code is made for {type(s).__name__}")

    def _beside(self, s: ir.For) -> int:
        hit = self._besides.get(id(s))
        if hit is None:
            hit = self._besides[id(s)] = (s, beside(s, self.vector_bits))
        return hit[1]

    def _woven(self, s: ir.For) -> None:
        """Vectors whose chains of instructions are long, several side by side."""
        nest = ExpandedNest.of(s, None)
        if nest and self.saturated.nest(nest, [*self._cut(nest.vectors)], self._beside(s)):
            return
        block, first, self._ends = self.fn.block, len(self.fn.block.body), []
        self._weaves = True
        self._stmt(s)
        self._weaves = False
        if block is self.fn.block and self._ends:
            chains = [block.body[a:b] for a, b in pairwise([first, *self._ends])]
            block.body[first : self._ends[-1]] = woven(chains, self._beside(s))

    def _expanded(self, s: ir.For) -> None:
        if self.across.emitted(s, self.symbolic):
            return
        ordered = by_element(s, self.addresses)
        if self._updated(s, ordered):
            return
        if ordered is None:
            apart = self._crowded(s)
            with self.expressions.transposed.within(s):
                for i in range(_static(s.extent)):
                    if apart and i:
                        self.fn.line(_APART)
                    self.bindings.bind(s.var, i)
                    self._stmt(s.body)
            return
        body, points = ordered
        for point in points:
            for var, i in point.items():
                self.bindings.bind(var, i)
            self._stmt(body)

    def _updated(self, s: ir.For, ordered: tuple[ir.Stmt, list[dict[Axis, int]]] | None) -> bool:
        """Emit loops around vectors that update registers at once, if these are such."""
        nest = ExpandedNest.of(s, None if ordered is None else ordered[1])
        if nest is None or self._weaves:
            return False
        if ordered is None and any(map(self._crowded, nest.loops)):
            return False
        lanes = [*self._cut(nest.vectors)]
        return self.saturated.nest(nest, lanes) or self.updates.nest(nest, lanes)

    def _crowded(self, s: ir.For) -> bool:
        """Whether vectors of several steps of a reduction have no room beside its accumulators.

        LLVM brings loads of neighbouring vectors together before it counts registers, and what
        would take them apart again is left out with vectors this wide (`passes`). One register is
        that of the element that all lanes share.
        """
        if self.vector_bits != 512:
            return False
        stored = self._stored_registers(s.body)
        held = sum(k[0] in stored for k in self.memory.registers.values)
        return held + _TOGETHER + 1 > _REGISTERS and reduces(s)

    def _vector(self, s: ir.For) -> None:
        outer, self.bindings.vector = self.bindings.vector, s.var
        for lane in self._cut(s):
            self.bindings.bind(s.var, lane if lane.width > 1 else lane.offset)
            self._stmt(s.body)
        self.bindings.vector = outer

    def _cut(self, s: ir.For) -> Iterator[Lane]:
        """The vectors of a loop, made when each is reached."""
        lanes = self._lanes(s)
        if s.active is None:
            yield from pieces(_static(s.extent), lanes, self._masked)
            return
        for offset, width in whole_vectors(_static(s.extent), lanes):
            if self._facts.reaches(s.active, offset + width):
                yield Lane(offset, width, width)
            else:
                mask = some_lanes(self.integers, s.active, offset, width, self.vector_bits)
                yield Lane(offset, width, width, mask)

    def _lanes(self, s: ir.For) -> int:
        """Lanes of a vector loop: a register of the widest type stored or accumulated."""
        if self._widest <= 4:
            return self.vector_bits // 32
        hit = self._lane_counts.get(id(s))
        if hit is None:
            stores = [x for x in ir.walk_stmts(s.body) if isinstance(x, ir.Store)]
            read = [
                n.buffer
                for x in stores
                for n in walk(x.value, ir.VALUES)
                if isinstance(n, ir.Load)
            ]
            wide = [x.buffer for x in stores] + [b for b in read if b.scope == "register"]
            lanes = self.vector_bits // (8 * max(4, *(BYTES[b.dtype] for b in wide)))
            hit = self._lane_counts[id(s)] = (s, lanes)
        return hit[1]

    def _forget(self) -> None:
        """Start of a new basic block: what was made in another one may not be there."""
        self.arithmetic.forget()
        self.memory.forget()
        self.dots.forget()

    def _stored_registers(self, s: ir.Stmt) -> set[ir.Buffer]:
        hit = self._registers.get(id(s))
        if hit is None:
            stored = set[ir.Buffer]()
            if isinstance(s, ir.Store) and s.buffer.scope == "register":
                stored.add(s.buffer)
            stored.update(*map(self._stored_registers, ir.parts_of(s)))
            hit = self._registers[id(s)] = (s, stored)
        return hit[1]

    def _serial(self, s: ir.For) -> None:
        """A loop; register elements that its body updates are carried in phis."""
        fn, registers = self.fn, self.memory.registers.values
        start, stop = (
            self.integers.int_value(x)[0] if isinstance(x, Expr) else self.integers.literal(x)
            for x in (s.start, s.extent)
        )
        known = not start.startswith("%") and not stop.startswith("%")
        if known and int(start) >= int(stop):
            return
        some = known or _has_points(s)  # whatever a run says
        stored = self._stored_registers(s.body)
        carried = [k for k in registers if k[0] in stored]
        before = {k: registers[k] for k in carried}
        head, done = fn.label("loop"), fn.label("done")
        origin = fn.block.label
        if some:
            fn.line(f"br label %{head}")
        else:
            any_ = fn.emit(f"icmp sgt i64 {stop}, {start}")
            fn.line(f"br i1 {any_}, label %{head}, label %{done}")
        block = fn.open_loop(head)
        i, following = fn.name(), fn.name()
        self.bindings.bind(s.var, Dynamic(i, fn.depth))
        inside = {k: Ssa(fn.name(), before[k].width, before[k].dtype) for k in carried}
        registers.update(inside)
        self._forget()
        self._stmt(s.body)
        fn.line(f"{following} = add nuw nsw i64 {i}, 1")
        more = fn.emit(f"icmp slt i64 {following}, {stop}")
        latch = fn.block.label
        fn.line(f"br i1 {more}, label %{head}, label %{done}")
        block.phis.append(f"  {i} = phi i64 [{start}, %{origin}], [{following}, %{latch}]")
        for k in carried:
            v, after = inside[k], registers[k]
            block.phis.append(
                f"  {v.ssa} = phi {v.type} [{before[k].ssa}, %{origin}], [{after.ssa}, %{latch}]"
            )
        fn.close_loop()
        end = fn.begin(done)
        if not some:  # without an iteration, registers keep what they held
            for k in carried:
                kept, after = before[k], registers[k]
                v = Ssa(fn.name(), kept.width, kept.dtype)
                end.phis.append(
                    f"  {v.ssa} = phi {v.type} [{kept.ssa}, %{origin}], [{after.ssa}, %{latch}]"
                )
                registers[k] = v
        self._forget()

    def _if(self, s: ir.If) -> None:
        fn, registers = self.fn, self.memory.registers.values
        cond, _ = self.integers.int_value(s.cond)
        if cond in ("true", "false"):
            chosen = s.then if cond == "true" else s.orelse
            if chosen is not None:
                self._stmt(chosen)
            return
        stored = self._stored_registers(s)
        if any(k[0] in stored for k in registers):
            raise ScheduleError("a register is updated under a condition that is not known here")
        then, other, done = fn.label("then"), fn.label("else"), fn.label("fi")
        fn.line(f"br i1 {cond}, label %{then}, label %{other if s.orelse is not None else done}")
        kept = dict(registers)
        for label, branch, holds in ((then, s.then, True), (other, s.orelse, False)):
            if branch is None:
                continue
            block = fn.begin(label)
            self._forget()
            home = fn.home(block) if self.symbolic else nullcontext()
            with home, self._facts.where(s.cond, holds):
                self._stmt(branch)
            registers.clear()
            registers.update(kept)
            fn.line(f"br label %{done}")
        fn.begin(done)
        self._forget()


def _static(extent: Extent | Expr) -> int:
    assert isinstance(extent, int), "expanded and vector loops have constant extents"
    return extent


def _has_points(s: ir.For) -> bool:
    """Whether a loop from 0 runs at least once, whatever values symbols have."""
    return s.start == 0 and not isinstance(s.extent, Expr) and range_of(s.extent)[0] > 0
