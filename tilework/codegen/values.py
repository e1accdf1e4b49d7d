"""Floating-point code: expressions as scalars or as vectors over the innermost loop."""

from __future__ import annotations

from collections.abc import Iterator

from tilework.codegen.arithmetic import Arithmetic
from tilework.codegen.convert import FEATURE, convert, halves
from tilework.codegen.masks import masked_load, masked_store
from tilework.codegen.math_functions import MathLibrary
from tilework.codegen.pairs import pair_dot
from tilework.codegen.scalars import (
    INDEX_TYPES,
    Lane,
    LaneDependent,
    Scalars,
    is_index_arithmetic,
)
from tilework.codegen.types import BYTES, LLVM_TYPE, Value, float_literal, literal, vector_type
from tilework.errors import ScheduleError
from tilework.lower.ir import PAIR_DOT, Buffer, Load
from tilework.te.affine import Linear
from tilework.te.expr import (
    NARROW_FLOATS,
    Axis,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Logic,
    Lookup,
    Not,
    Select,
    is_float,
    walk,
)

_LINE_BYTES = 64
_PREFETCH_BYTES = 8192
_LoadKey = tuple[Buffer, tuple[tuple[str, int, int], ...], int, int, int, tuple[str, ...]]
"""Buffer, dynamic index terms, constant index, width, active lanes, guards."""
_PAIR = -2
"""In place of a width: two elements as one integer."""


class Values(Arithmetic):
    """Emits value expressions; keeps the loads of the current straight-line code."""

    def __init__(self, scalars: Scalars, math: MathLibrary) -> None:
        super().__init__(scalars.fn, math)
        self.scalars = scalars
        self.lane_var: Axis | None = None
        self.registers: dict[tuple[Buffer, int], Value] = {}
        self._loads: dict[_LoadKey, Value] = {}
        self._guards: list[str] = []
        self._products: dict[int, tuple[Expr, list[Lookup], list[Expr]]] = {}
        self._integers: dict[int, tuple[Expr, bool]] = {}
        self._repeats: dict[tuple[str, str], str] = {}

    # -- state of straight-line code --------------------------------------------------------

    def forget(self) -> None:
        """Start of a new basic block: nothing loaded so far may be reused."""
        super().forget()
        self._loads.clear()
        self._repeats.clear()

    def invalidate(self, buffer: Buffer) -> None:
        """A store to ``buffer`` makes earlier loads of it stale."""
        stale = [k for k in self._loads if k[0] is buffer]
        for k in stale:
            del self._loads[k]

    # -- expressions ------------------------------------------------------------------------

    def value(self, e: Expr) -> Value:
        """Emit ``e``; a vector where it depends on the vector loop, else a scalar."""
        match e:
            case Const():
                return Value(literal(e.value, e.dtype), 1, e.dtype)
            case Load():
                return self.load(e)
            case Binary() if e.op == "+" and is_float(e.dtype):
                return self._add(e)
            case Binary() if e.op == "*" and is_float(e.dtype):
                return self._scaled(e.dtype, *self._product(e))
            case Binary():
                steps = self._steps(e)
                return steps or self.binary(e.op, self.value(e.a), self.value(e.b))
            case Lookup():
                return Value(literal(self._entry(e), e.dtype), 1, e.dtype)
            case Select() | IfThenElse():
                return self._choose(e)
            case Call(name=name) if name == PAIR_DOT:
                return self._pair_dot(e)
            case Call():
                return self.math.call(self, e.name, [self.value(a) for a in e.args])
            case Cast():
                return self._cast(e)
            case Compare() | Logic() | Not() | Axis():
                return self._predicate(e)
        raise ScheduleError(f"cannot generate code for {type(e).__name__}")

    def _add(self, e: Binary) -> Value:
        """Additions of a product become fused multiply-adds."""
        for product, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(product, Binary) and product.op == "*":
                scale, factors = self._product(product)
                other_value = self.value(other)
                zero = other_value.ssa == float_literal(0.0, e.dtype)
                if scale == 0:
                    return other_value
                if zero or not factors:
                    done = self._scaled(e.dtype, scale, factors)
                    return done if zero else self.binary("+", other_value, done)
                *most, last = factors
                if not most and scale in (1, -1):
                    return self.binary("+" if scale == 1 else "-", other_value, self.value(last))
                scaled = self._scaled(e.dtype, scale, most)
                return self.multiply_add(scaled, self.value(last), other_value)
        return self.binary("+", self.value(e.a), self.value(e.b))

    def _entry(self, e: Lookup) -> float:
        """The matrix element; its loops are expanded, so the indices are literals."""
        flat = 0
        for index, extent in zip(e.indices, e.shape, strict=True):
            bound = self.scalars.env.get(index) if isinstance(index, Axis) else None
            if not isinstance(bound, int):
                at, _ = self.scalars.int_value(index)
                if at.startswith("%"):
                    raise ScheduleError(f"the loops that index matrix {e.name} are not expanded")
                bound = int(at)
            flat = flat * extent + bound
        return e.values[flat]

    def _product(self, e: Expr) -> tuple[float, list[Expr]]:
        """A product as a literal factor (from constant matrices) and the other factors."""
        hit = self._products.get(id(e))
        if hit is None:
            leaves = list(_leaves(e))
            lookups = [x for x in leaves if isinstance(x, Lookup)]
            others = [x for x in leaves if not isinstance(x, Lookup)]
            hit = self._products[id(e)] = (e, lookups, others)
        scale = 1.0
        for lookup in hit[1]:
            scale *= self._entry(lookup)
        return scale, hit[2]

    def _scaled(self, dtype: str, scale: float, factors: list[Expr]) -> Value:
        """``scale * factors[0] * factors[1] ...``."""
        if not factors or scale == 0:
            return Value(float_literal(scale, dtype), 1, dtype)
        out = self.value(factors[0])
        for factor in factors[1:]:
            out = self.binary("*", out, self.value(factor))
        if scale == 1:
            return out
        return self.binary("*", out, Value(float_literal(scale, out.dtype), 1, out.dtype))

    def _choose(self, e: Select | IfThenElse) -> Value:
        """A choice: decided now, by a scalar predicate, or element by element."""
        guarded = isinstance(e, IfThenElse)
        if self._integer_only(e.cond):
            try:
                cond_ssa, _ = self.scalars.int_value(e.cond)
            except LaneDependent:
                if guarded and not (self._loaded(e.a) and self._loaded(e.b)):
                    return self._by_lane(e)
                cond = self._predicate(e.cond)
                return self.select(cond, self.value(e.a), self.value(e.b))
            if cond_ssa in ("true", "false"):
                return self.value(e.a if cond_ssa == "true" else e.b)
        else:  # the data decides
            cond = self.value(e.cond)
            if not guarded or (self._loaded(e.a) and self._loaded(e.b)):
                return self.select(cond, self.value(e.a), self.value(e.b))
            if cond.width > 1 or self._varies(e):
                return self._by_lane(e)
            cond_ssa = cond.ssa
        a = self._guarded(cond_ssa, e.a) if guarded else self.value(e.a)
        if guarded and not isinstance(e.b, Const):
            inverse = self.fn.emit(f"xor i1 {cond_ssa}, true")
            b = self._guarded(inverse, e.b)
        else:
            b = self.value(e.b)
        return self.select(Value(cond_ssa, 1, "bool"), a, b)

    def _loaded(self, e: Expr) -> bool:
        """Whether the expression reads nothing that has not been read here already."""
        loads = [n for n in walk(e) if isinstance(n, Load) and n.buffer.scope != "register"]
        return all(self._known(n) is not None for n in loads)

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

    def _cast(self, e: Cast) -> Value:
        if e.a.dtype in INDEX_TYPES and self._integer_only(e.a):
            try:
                ssa, _ = self.scalars.int_value(e.a)
            except LaneDependent:
                return convert(self, self.value(e.a), e.dtype)
            if e.dtype in NARROW_FLOATS:
                return convert(self, self._cast(Cast("float32", e.a)), e.dtype)
            if not ssa.startswith("%"):
                return Value(literal(int(ssa), e.dtype), 1, e.dtype)
            if is_float(e.dtype):
                out = self.fn.emit(f"sitofp i64 {ssa} to {LLVM_TYPE[e.dtype]}")
                return Value(out, 1, e.dtype)
            if e.dtype == "bool":
                return Value(self.fn.emit(f"icmp ne i64 {ssa}, 0"), 1, "bool")
            return self._resize(ssa, e.dtype)
        return convert(self, self.value(e.a), e.dtype)

    def _resize(self, ssa: str, dtype: str) -> Value:
        if LLVM_TYPE[dtype] == "i64" or not ssa.startswith("%"):
            return Value(ssa, 1, dtype)
        return Value(self.fn.emit(f"trunc i64 {ssa} to {LLVM_TYPE[dtype]}"), 1, dtype)

    def _predicate(self, e: Expr) -> Value:
        if self._integer_only(e):
            try:
                ssa, _ = self.scalars.int_value(e)
                return Value(ssa, 1, "bool") if e.dtype == "bool" else self._resize(ssa, e.dtype)
            except LaneDependent:
                steps = self._steps(e)
                if steps is not None:
                    return steps
        match e:
            case Compare():
                return self.compare(e.op, self.value(e.a), self.value(e.b))
            case Logic():
                a, b = self.match(self.value(e.a), self.value(e.b))
                return Value(self.fn.emit(f"{e.op} {a.type} {a.ssa}, {b.ssa}"), a.width, "bool")
            case Not():
                a = self.value(e.a)
                ones = self.splat(Value("true", 1, "bool"), a.width)
                return Value(self.fn.emit(f"xor {a.type} {a.ssa}, {ones.ssa}"), a.width, "bool")
        raise ScheduleError(f"cannot generate a predicate for {type(e).__name__}")

    def _steps(self, e: Expr) -> Value | None:
        """A linear function of the vector loop's variable: its first value, and equal steps."""
        if e.dtype not in INDEX_TYPES or not self._integer_only(e):
            return None
        form = self.scalars.form(e)
        if form is None:
            return None
        const, terms, step, lane = self.scalars.split(form)
        if lane is None:
            return None
        first = self._resize(self.scalars.sum(const, terms)[0], e.dtype)
        kind = LLVM_TYPE[e.dtype]
        steps = ", ".join(f"{kind} {step * i}" for i in range(lane.width))
        return self.binary("+", first, Value(f"<{steps}>", lane.width, e.dtype))

    # -- pairs of bfloat16 ------------------------------------------------------------------

    def _pair_dot(self, e: Call) -> Value:
        """A dot product of pairs; multiply-adds where the operands are no neighbours."""
        acc = self.value(e.args[0])
        a, b, c, d = e.args[1:]
        left, right = self._pair(a, c, acc.width), self._pair(b, d, acc.width)
        if left and right:
            # A pair repeated in all lanes comes last: there it may be read by the instruction.
            if left in self._repeats.values():
                left, right = right, left
            if FEATURE["bfloat16"] in self.math.features:
                return pair_dot(self.fn, self.math, acc, left, right)
            for x, y in zip(*(halves(self, v, acc.width) for v in (left, right)), strict=True):
                acc = self.multiply_add(x, y, acc)
            return acc
        for x, y in ((a, b), (c, d)):
            left_wide = convert(self, self.value(x), "float32")
            acc = self.multiply_add(left_wide, convert(self, self.value(y), "float32"), acc)
        return acc

    def _pair(self, first: Expr, second: Expr, width: int) -> str | None:
        """The pairs of an operand: ``2 * width`` bfloat16; None if they lie in no such order."""
        if isinstance(first, IfThenElse) and isinstance(second, IfThenElse):
            try:
                cond, _ = self.scalars.int_value(first.cond)
            except LaneDependent:
                return None
            if cond in ("true", "false"):
                taken = (first.a, second.a) if cond == "true" else (first.b, second.b)
                return self._pair(*taken, width)
            self._guards.append(cond)
            try:
                one = self._pair_scalar(first.a, second.a)
            finally:
                self._guards.pop()
            if one is None:
                return None
            chosen = self.select(Value(cond, 1, "bool"), one, Value("0", 1, "int32"))
            return self._repeated(chosen, width)
        if isinstance(first, Const):
            return "zeroinitializer" if first.value == 0 else None
        if not (isinstance(first, Load) and isinstance(second, Load)):
            return None
        form = self.scalars.flat(first, first.buffer, first.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.scalars.split(form)
        if lane is None or lane_c == 0:
            one = self._pair_scalar(first, second)
            return self._repeated(one, width) if one is not None else None
        if lane_c != 2 or self._guards or not self._neighbours(first, second):
            return None
        key: _LoadKey = (first.buffer, terms, const, 2 * width, 2 * width, ())
        if key not in self._loads:
            pointer = self.scalars.pointer(first.buffer, terms, const)
            self._loads[key] = self._load_at(first.buffer, pointer, 2 * width, 2 * width)
        return self._loads[key].ssa

    def _pair_scalar(self, first: Expr, second: Expr) -> Value | None:
        """Two neighbours as one 32-bit integer."""
        if not (isinstance(first, Load) and isinstance(second, Load)):
            return None
        form = self.scalars.flat(first, first.buffer, first.indices)
        if form is None or not self._neighbours(first, second):
            return None
        const, terms, lane_c, _ = self.scalars.split(form)
        if lane_c:
            return None
        key = (first.buffer, terms, const, _PAIR, 1, tuple(self._guards))
        if key not in self._loads:
            pointer = self._guarded_pointer(
                first.buffer, self.scalars.pointer(first.buffer, terms, const)
            )
            ssa = self.fn.emit(f"load i32, ptr {pointer}, align 2")
            self._loads[key] = Value(ssa, 1, "int32")
        return self._loads[key]

    def _neighbours(self, first: Load, second: Load) -> bool:
        """Whether the second element follows the first in memory."""
        a = self.scalars.flat(first, first.buffer, first.indices)
        b = self.scalars.flat(second, second.buffer, second.indices)
        if first.buffer is not second.buffer or a is None or b is None:
            return False
        return a.coefficients == b.coefficients and b.const == a.const + 1

    def _repeated(self, pair: Value, width: int) -> str:
        """One pair in every lane."""
        v = self.splat(pair, width)
        kind = vector_type("bfloat16", 2 * width)
        key = (v.ssa, kind)
        if key not in self._repeats:
            self._repeats[key] = self.fn.emit(f"bitcast {v.type} {v.ssa} to {kind}")
        return self._repeats[key]

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
        if buffer.streamed and width * BYTES[buffer.dtype] == _LINE_BYTES:
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


def _leaves(e: Expr) -> Iterator[Expr]:
    """Factors of a product."""
    if isinstance(e, Binary) and e.op == "*":
        yield from _leaves(e.a)
        yield from _leaves(e.b)
    else:
        yield e
