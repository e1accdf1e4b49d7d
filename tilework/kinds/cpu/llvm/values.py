"""Floating-point code: expressions as scalars or as vectors over the innermost loop."""

from __future__ import annotations

from collections.abc import Iterator

from tilework.dtypes import NARROW_FLOATS, is_float
from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.convert import convert
from tilework.kinds.cpu.llvm.math_functions import MathLibrary
from tilework.kinds.cpu.llvm.pairs import Pairs
from tilework.kinds.cpu.llvm.scalars import INDEX_TYPES, LaneDependent, Scalars
from tilework.kinds.cpu.llvm.types import LLVM_TYPE, Value, float_literal, literal
from tilework.lower.ir import PAIR_DOT, Load
from tilework.te.expr import (
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
    walk,
)


class Values(Pairs):
    """Emits value expressions."""

    def __init__(self, scalars: Scalars, math: MathLibrary) -> None:
        super().__init__(scalars, math)
        self._products: dict[int, tuple[Expr, list[Lookup], list[Expr]]] = {}

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
                return self.pair_dot(e)
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


def _leaves(e: Expr) -> Iterator[Expr]:
    """Factors of a product."""
    if isinstance(e, Binary) and e.op == "*":
        yield from _leaves(e.a)
        yield from _leaves(e.b)
    else:
        yield e
