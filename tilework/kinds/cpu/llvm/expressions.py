"""Values of expressions, as scalars or as vectors over the innermost loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilework.dtypes import is_float
from tilework.errors import ScheduleError
from tilework.index.extents import Extent
from tilework.index.form import constant
from tilework.index.symbols import Symbolic
from tilework.kinds.cpu.llvm import byte_tables
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.convert import binary, compare, convert, to_nearest
from tilework.kinds.cpu.llvm.dots import Dots
from tilework.kinds.cpu.llvm.few_bits import FewBits, looked_up, looks_up
from tilework.kinds.cpu.llvm.index_data import IndexData
from tilework.kinds.cpu.llvm.integers import INDEX_TYPES
from tilework.kinds.cpu.llvm.lanes import LaneDependent
from tilework.kinds.cpu.llvm.load_store import LoadStore, extent_of
from tilework.kinds.cpu.llvm.math_calls import MathCalls
from tilework.kinds.cpu.llvm.products import Products
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, float_literal, literal, zero_literal
from tilework.kinds.cpu.llvm.transposed import TransposedLoads
from tilework.lower.ir import VALUES, Dot, Load
from tilework.te import expr as x


class Expressions:
    """Emits value expressions, over parts that each own their state.

    ``arithmetic`` has the operators on SSA values, ``memory`` loads and guards, ``dots`` the
    instructions that sum products; ``integers`` and ``bindings`` are the loops' side. Here is what
    recurs: operands of operators, branches of choices, and indices that data decide.
    """

    def __init__(self, memory: LoadStore, dots: Dots, arithmetic: Arithmetic) -> None:
        self.memory = memory
        self.dots = dots
        self.arithmetic = arithmetic
        self.fn = arithmetic.fn
        self.addresses = memory.addresses
        self.integers = memory.addresses.integers
        self.bindings = memory.bindings
        self.math = MathCalls(arithmetic)
        self.products = Products(self.integers)
        self.index = IndexData(self.integers, arithmetic)
        self.transposed = TransposedLoads(memory)

    def value(self, e: x.Expr) -> Ssa:
        """Emit ``e``; a vector where it depends on the vector loop, else a scalar."""
        emit = _EMITTERS.get(type(e))
        if emit is None:
            raise ScheduleError(f"cannot generate code for {type(e).__name__}")
        return emit(self, e)

    def _const(self, e: x.Const) -> Ssa:
        if isinstance(e.value, Symbolic):
            return self.index.scalar(e, e.dtype)
        return Ssa(literal(e.value, e.dtype), 1, e.dtype)

    def _lookup(self, e: x.Lookup) -> Ssa:
        return Ssa(literal(self.products.entry(e), e.dtype), 1, e.dtype)

    def _call(self, e: x.Call) -> Ssa:
        return self.math.call(e.name, [self.value(a) for a in e.args])

    def _binary(self, e: x.Binary) -> Ssa:
        if is_float(e.dtype):
            if e.op == "+":
                return self._add(e)
            if e.op == "*":
                return self._scaled(e.dtype, *self.products.split(e))
        steps = self.index.steps(e) or self._few_bits(e)
        return steps or binary(self.arithmetic, e.op, self.value(e.a), self.value(e.b))

    def _add(self, e: x.Binary) -> Ssa:
        """Additions of a product become fused multiply-adds."""
        for product, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(product, x.Binary) and product.op == "*":
                scale, factors = self.products.split(product)
                other_value = self.value(other)
                zero = other_value.ssa == zero_literal(e.dtype)
                if scale == 0:
                    return other_value
                if zero or not factors:
                    done = self._scaled(e.dtype, scale, factors)
                    return done if zero else self.arithmetic.binary("+", other_value, done)
                *most, last = factors
                if not most and scale in (1, -1):
                    return self.arithmetic.binary(
                        "+" if scale == 1 else "-", other_value, self.value(last)
                    )
                scaled = self._scaled(e.dtype, scale, most)
                return self.arithmetic.multiply_add(scaled, self.value(last), other_value)
        return self.arithmetic.binary("+", self.value(e.a), self.value(e.b))

    def _scaled(self, dtype: str, scale: float, factors: list[x.Expr]) -> Ssa:
        """``scale * factors[0] * factors[1] ...``."""
        if not factors or scale == 0:
            return Ssa(float_literal(scale, dtype), 1, dtype)
        out = self.value(factors[0])
        for factor in factors[1:]:
            out = self.arithmetic.binary("*", out, self.value(factor))
        if scale == 1:
            return out
        return self.arithmetic.binary("*", out, Ssa(float_literal(scale, out.dtype), 1, out.dtype))

    def _choose(self, e: x.Select | x.IfThenElse) -> Ssa:
        """A choice: decided now, by a scalar predicate, or element by element."""
        guarded = isinstance(e, x.IfThenElse)
        if self.index.covers(e.cond):
            try:
                cond_ssa, _ = self.integers.int_value(e.cond)
            except LaneDependent:
                if guarded and not (self._loaded(e.a) and self._loaded(e.b)):
                    return self._some_loaded(e.cond, e.a, e.b) or self._by_lane(e)
                cond = self._predicate(e.cond)
                return self.arithmetic.select(cond, self.value(e.a), self.value(e.b))
            if cond_ssa in ("true", "false"):
                return self.value(e.a if cond_ssa == "true" else e.b)
        else:  # the data decides
            cond = self.value(e.cond)
            if not guarded or (self._loaded(e.a) and self._loaded(e.b)):
                return self.arithmetic.select(cond, self.value(e.a), self.value(e.b))
            if cond.width > 1 or self._varies(e):
                return self._by_lane(e)
            cond_ssa = cond.ssa
        a = self._guarded(cond_ssa, e.a) if guarded else self.value(e.a)
        if guarded and not isinstance(e.b, x.Const):
            inverse = self.fn.emit(f"xor i1 {cond_ssa}, true")
            b = self._guarded(inverse, e.b)
        else:
            b = self.value(e.b)
        return self.arithmetic.select(Ssa(cond_ssa, 1, "bool"), a, b)

    def _some_loaded(self, cond: x.Expr, load: x.Expr, other: x.Expr) -> Ssa | None:
        """Neighbours, of which those that are there are loaded at once; None: one by one.

        Of integers: kernels of floats, which choose elsewhere, are the same code as ever.
        """
        if not isinstance(load, Load) or not isinstance(other, x.Const) or is_float(load.dtype):
            return None
        buffer, form = load.buffer, self.addresses.flat(load.buffer, load.indices)
        if form is None or buffer.scope == "register" or self.memory.guards:
            return None
        const, terms, step, lane = self.bindings.split(form)
        plain = step == 1 and lane is not None and lane.idle is None
        if not plain or buffer.dtype == "bool" or not self.memory.masked.moves(buffer.dtype):
            return None
        there, pointer = self._predicate(cond), self.addresses.pointer(buffer, terms, const)
        loaded = self.memory.masked.load_where(buffer.dtype, pointer, there)
        return self.arithmetic.select(there, loaded, self.value(other))

    def _guarded(self, cond: str, e: x.Expr) -> Ssa:
        with self.memory.guarded(cond):
            return self.value(e)

    def _loaded(self, e: x.Expr) -> bool:
        """Whether the expression reads nothing that has not been read here already."""
        loads = [
            n for n in x.walk(e, VALUES) if isinstance(n, Load) and n.buffer.scope != "register"
        ]
        return all(self.memory.known(n) is not None for n in loads)

    # -- loads at any indices ---------------------------------------------------------------

    def _load(self, e: Load) -> Ssa:
        """A load: of a register element, a scalar, a whole vector, or element by element."""
        form = self.addresses.flat(e.buffer, e.indices)
        if form is None:
            return self._load_general(e)
        value = self.memory.load(e.buffer, form)
        value = value or self.transposed.load(e.buffer, form)
        return self._by_lane(e) if value is None else value

    def _load_general(self, e: Load) -> Ssa:
        """A load at indices of which some are no linear form: divided ones, or read from memory.

        A vector where the other indices move along one, else a scalar or element by element.
        """
        if all(self.index.covers(i) for i in e.indices):
            try:
                pointer = self.addresses.element(e.buffer, e.indices)
                return self.memory.load_at(e.buffer, pointer, 1, 1)
            except LaneDependent:
                pass
        byte = byte_tables.byte_index(e)
        if byte is not None and self._varies(byte) and byte_tables.looks_up(self.arithmetic):
            table = self.memory.table(e.buffer, byte_tables.REGISTER)
            return byte_tables.looked_up(self.arithmetic, table, self.value(byte))
        linear = constant(0)
        others: list[tuple[x.Expr, Extent]] = []
        for index, stride in zip(e.indices, e.buffer.strides, strict=True):
            form = self.integers.form(index)
            if form is None:
                others.append((index, stride))
            else:
                linear = linear + form.scale(stride)
        const, terms, lane_c, lane = self.bindings.split(linear)
        width, active = extent_of(lane if lane_c == 1 else None)
        if lane_c not in (0, 1) or any(self._varies(index) for index, _ in others):
            return self._by_lane(e)
        if not self.memory.fits(e.buffer, width, active):
            return self._by_lane(e)
        pointer = self.addresses.pointer(e.buffer, terms, const)
        for index, stride in others:
            at = self._position(index)
            step = self.integers.literal(stride * BYTES[e.buffer.dtype])
            offset = self.fn.emit(f"mul nsw i64 {at}, {step}")
            pointer = self.fn.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.memory.load_at(e.buffer, pointer, width, active)

    def _position(self, index: x.Expr) -> str:
        """An index that is the same in all lanes, in 64 bits."""
        if self.index.covers(index):
            return self.integers.int_value(index)[0]
        return convert(self.arithmetic, self.value(index), "int64").ssa

    def _varies(self, e: x.Expr) -> bool:
        """Whether the vector loop's variable occurs in the expression."""
        vector = self.bindings.vector
        return self.bindings.lane() is not None and any(n is vector for n in x.walk(e))

    def _by_lane(self, e: x.Expr) -> Ssa:
        """Emit ``e`` once per lane of the vector loop and collect the results."""
        var, lane = self.bindings.vector, self.bindings.lane()
        assert var is not None
        assert lane is not None
        out: Ssa | None = None
        for i in range(lane.active):
            self.bindings.bind(var, lane.offset + i)
            if lane.some is None:
                part = self.value(e)
            else:
                part = self._guarded(self.memory.masked.counts(lane.some, i), e)
            into = Ssa("poison" if out is None else out.ssa, lane.width, part.dtype)
            text = f"insertelement {into.type} {into.ssa}, {part.type} {part.ssa}, i32 {i}"
            out = Ssa(self.fn.emit(text), lane.width, part.dtype)
        self.bindings.bind(var, lane)
        assert out is not None
        return out

    def _dot(self, e: Dot) -> Ssa:
        """An instruction; what it means where its operands' elements are no neighbours."""
        return self.dots.value(e, self.value(e.args[0]), self.value) or self.value(e.meaning)

    # -- conversions and predicates ---------------------------------------------------------

    def _cast(self, e: x.Cast) -> Ssa:
        if e.a.dtype in INDEX_TYPES and self.index.covers(e.a):
            try:
                return self.index.scalar(e.a, e.dtype)
            except LaneDependent:
                pass
        rounded = e.a if isinstance(e.a, x.Call) and e.a.name == "round" else None
        if rounded is not None and e.dtype == "int32":
            value = _finite(self, rounded.args[0])
            return to_nearest(self.arithmetic, value) or convert(
                self.arithmetic, self.math.call("round", [value]), e.dtype
            )
        return self._few_bits(e) or convert(self.arithmetic, self.value(e.a), e.dtype)

    def _few_bits(self, e: x.Expr) -> Ssa | None:
        """Numbers of four bits, where an instruction looks them up."""
        few = FewBits.of(e)
        if few is None or not looks_up(self.arithmetic, index := self.value(few.numbers)):
            return None
        return looked_up(self.arithmetic, few, index)

    def _predicate(self, e: x.Expr) -> Ssa:
        if self.index.covers(e):
            try:
                return self.index.plain(e)
            except LaneDependent:
                steps = self.index.steps(e)
                if steps is not None:
                    return steps
        match e:
            case x.Compare():
                return compare(self.arithmetic, e.op, self.value(e.a), self.value(e.b))
            case x.Logic():
                a, b = self.arithmetic.match(self.value(e.a), self.value(e.b))
                return Ssa(self.fn.emit(f"{e.op} {a.type} {a.ssa}, {b.ssa}"), a.width, "bool")
            case x.Not():
                a = self.value(e.a)
                ones = self.arithmetic.splat(Ssa("true", 1, "bool"), a.width)
                return Ssa(self.fn.emit(f"xor {a.type} {a.ssa}, {ones.ssa}"), a.width, "bool")
        raise ScheduleError(f"cannot generate a predicate for {type(e).__name__}")


def _finite(own: Expressions, e: x.Expr) -> Ssa:
    """The value of what has to be in the range of int32: of what is not, anything."""
    if not (isinstance(e, x.Call) and e.name == "quotient"):
        return own.value(e)
    operands = own.arithmetic.match(*[own.value(a) for a in e.args])
    return own.math.quotient(*operands, finite=True)


_EMITTERS: dict[type[x.Expr], Callable[[Expressions, Any], Ssa]] = {
    x.Const: Expressions._const,
    Load: Expressions._load,
    x.Binary: Expressions._binary,
    x.Lookup: Expressions._lookup,
    x.Select: Expressions._choose,
    x.IfThenElse: Expressions._choose,
    Dot: Expressions._dot,
    x.Call: Expressions._call,
    x.Cast: Expressions._cast,
    **dict.fromkeys((x.Compare, x.Logic, x.Not, x.Axis), Expressions._predicate),
}
"""How each class of expressions is emitted."""
