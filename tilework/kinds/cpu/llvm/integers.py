"""Integer code: loop indices and predicates, hoisted to the loop they depend on."""

from __future__ import annotations

from collections.abc import Callable

from tilework.errors import ScheduleError
from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.index.symbols import Atom, Symbol, Symbolic, range_of
from tilework.index.whole import COMPARE
from tilework.kinds.cpu.llvm.bindings import Bindings, Terms
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.lanes import LaneDependent
from tilework.kinds.cpu.llvm.opcodes import SIGNED_ORDER
from tilework.kinds.cpu.llvm.ssa import LLVM_TYPE
from tilework.lower.common import weighted_sum
from tilework.lower.ir import Buffer, Load
from tilework.te import expr as x
from tilework.te.affine import linear

_ARITH = {"+": "add", "-": "sub", "*": "mul", "//": "sdiv", "%": "srem"}


INDEX_TYPES = ("int32", "int64")
"""Types that index arithmetic is written in; it is carried out in 64 bits."""


def is_index_arithmetic(e: x.Expr) -> bool:
    """Whether `Integers` can evaluate a node, its operands aside: no data, no odd types."""
    match e:
        case x.Axis() | x.Select() | x.IfThenElse() | x.Const():
            return e.dtype in (*INDEX_TYPES, "bool")
        case x.Logic() | x.Not():
            return True
        case x.Binary():
            return e.dtype in INDEX_TYPES and (e.op in _ARITH or e.op in ("max", "min"))
        case x.Compare() | x.Cast():
            return e.a.dtype in INDEX_TYPES and e.dtype in (*INDEX_TYPES, "bool")
    return False


class Integers:
    """Emits integer expressions into a function, once per loop level they depend on.

    It owns the linear forms of expressions.

    Args:
        symbol: emits the value of a symbol, outside of all loops.
    """

    def __init__(self, fn: Function, bindings: Bindings, symbol: Callable[[Symbol], str]) -> None:
        self.fn = fn
        self.bindings = bindings
        self._symbol = symbol
        self._linear: dict[int, tuple[x.Expr, Form[x.Axis] | None]] = {}

    def form(self, e: x.Expr) -> Form[x.Axis] | None:
        """Cached linear form of an expression."""
        hit = self._linear.get(id(e))
        if hit is None:
            hit = self._linear[id(e)] = (e, linear(e))
        return hit[1]

    def int_value(self, e: x.Expr) -> tuple[str, int]:
        """SSA value (or literal) of an integer or predicate expression, and its depth.

        Predicates come as ``i1`` (``true`` / ``false`` when known), integers as ``i64``.

        Raises:
            LaneDependent: the expression depends on a vector loop variable.
        """
        form = self.form(e) if e.dtype != "bool" else None
        if form is not None:
            const, terms, lane_c, lane = self.bindings.split(form)
            if lane is not None and lane_c:
                raise LaneDependent
            return self.sum(const, terms)
        match e:
            case x.Const():
                return ("true" if e.value else "false") if e.dtype == "bool" else str(e.value), 0
            case x.Binary():
                return self._binary(e)
            case x.Compare():
                (a, da), (b, db) = self.int_value(e.a), self.int_value(e.b)
                if _literal(a) and _literal(b):
                    return _known(COMPARE[e.op](int(a), int(b))), 0
                depth = max(da, db)
                text = f"icmp {SIGNED_ORDER[e.op]} i64 {a}, {b}"
                return self.fn.hoist(depth, text, text), depth
            case x.Logic():
                return self._logic(e)
            case x.Not():
                a, depth = self.int_value(e.a)
                if a in ("true", "false"):
                    return _known(a == "false"), 0
                return self.fn.hoist(depth, ("not", a), f"xor i1 {a}, true"), depth
            case x.Select() | x.IfThenElse():
                c, dc = self.int_value(e.cond)
                if c in ("true", "false"):
                    return self.int_value(e.a if c == "true" else e.b)
                (a, da), (b, db) = self.int_value(e.a), self.int_value(e.b)
                depth = max(dc, da, db)
                kind = "i1" if e.dtype == "bool" else "i64"
                text = f"select i1 {c}, {kind} {a}, {kind} {b}"
                return self.fn.hoist(depth, text, text), depth
            case x.Cast() if e.a.dtype in INDEX_TYPES and e.dtype in INDEX_TYPES:
                return self.int_value(e.a)
            case x.Cast() if e.a.dtype in INDEX_TYPES and e.dtype == "bool":
                return self.int_value(x.Compare("bool", "!=", e.a, x.Const(e.a.dtype, 0)))
            case Load() if e.dtype in ("int32", "int64"):
                return self._loaded(e)
        raise ScheduleError(f"cannot generate integer code for {type(e).__name__} ({e.dtype})")

    def _loaded(self, e: Load) -> tuple[str, int]:
        """An integer in memory, widened; read once per loop that its index depends on."""
        if e.buffer in self.bindings.written:
            raise ScheduleError(
                f"a position is read from {e.buffer.name}, which the same nest computes"
            )
        at, depth = self.flat_index(e.buffer, e.indices)
        kind, put = LLVM_TYPE[e.dtype], self.fn.hoist
        text = f"getelementptr {kind}, ptr {self.bindings.base[e.buffer]}, i64 {at}"
        pointer = put(depth, text, text)
        value = put(depth, ("load", pointer), f"load {kind}, ptr {pointer}")
        if kind == "i64":
            return value, depth
        return put(depth, ("sext", value), f"sext {kind} {value} to i64"), depth

    def flat_index(self, buffer: Buffer, indices: tuple[x.Expr, ...]) -> tuple[str, int]:
        """Element index of an access, which need not be linear, and its depth."""
        return self.int_value(weighted_sum(list(zip(indices, buffer.strides, strict=True))))

    def literal(self, extent: Extent) -> str:
        """A number as it is; an extent that a run brings, as a value from outside of all loops."""
        if isinstance(extent, int):
            return str(extent)
        name = self.fn.caches[0].get(extent)
        if name is None:
            name = self.fn.caches[0][extent] = self._polynomial(extent)
        return name

    def _polynomial(self, extent: Symbolic) -> str:
        total = ""
        for monomial, c in extent.terms.items():
            term = ""
            for atom in monomial:
                one = self._atom(atom)
                term = self._times(0, term, one) if term else one
            if not term:
                term = str(c)
            elif c != 1:
                term = self._times(0, term, str(c))
            total = self._add(0, total, term) if total else term
        return total

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self._symbol(atom)
        whole = self.literal(atom.whole)
        if range_of(atom.whole)[0] < 0:
            return self._floor("//", whole, str(atom.by), 0)
        text = f"udiv i64 {whole}, {atom.by}"
        return self.fn.hoist(0, text, text)

    def sum(self, const: Extent, terms: Terms) -> tuple[str, int]:
        """The value of a linear form without its vector variable, and its depth.

        Args:
            const, terms: as `Bindings.split` returns them.
        """
        total, depth = "", 0
        for ssa, c, d in terms:
            term = self.scaled(ssa, c, d)
            depth = max(depth, d)
            total = term if not total else self._add(depth, total, term)
        if not total:
            return self.literal(const), 0
        return (self._add(depth, total, self.literal(const)) if const != 0 else total), depth

    def scaled(self, ssa: str, factor: Extent, depth: int) -> str:
        """A value times an extent."""
        if factor == 1:
            return ssa
        text = f"mul nsw i64 {ssa}, {self.literal(factor)}"
        return self.fn.hoist(depth, ("mul", ssa, factor), text)

    def _times(self, depth: int, a: str, b: str) -> str:
        text = f"mul nsw i64 {a}, {b}"
        return self.fn.hoist(depth, text, text)

    def _add(self, depth: int, a: str, b: str) -> str:
        text = f"add nsw i64 {a}, {b}"
        return self.fn.hoist(depth, text, text)

    def _binary(self, e: x.Binary) -> tuple[str, int]:
        (a, da), (b, db) = self.int_value(e.a), self.int_value(e.b)
        if _literal(a) and _literal(b):
            value, _ = self.int_value(
                x.binary(e.op, x.Const("int32", int(a)), x.Const("int32", int(b)))
            )
            return value, 0
        depth = max(da, db)
        if e.op in ("max", "min"):
            order = "sgt" if e.op == "max" else "slt"
            c = self.fn.hoist(depth, ("cmp", order, a, b), f"icmp {order} i64 {a}, {b}")
            text = f"select i1 {c}, i64 {a}, i64 {b}"
            return self.fn.hoist(depth, text, text), depth
        if e.op in ("//", "%"):
            return self._floor(e.op, a, b, depth), depth
        text = f"{_ARITH[e.op]} i64 {a}, {b}"
        return self.fn.hoist(depth, text, text), depth

    def _floor(self, op: str, a: str, b: str, depth: int) -> str:
        """Division and remainder that round down, whatever the signs."""
        put = self.fn.hoist
        power = int(b) if _literal(b) else 0
        if power > 0 and power & (power - 1) == 0:  # a shift and a mask round down by themselves
            shift = power.bit_length() - 1
            text = f"ashr i64 {a}, {shift}" if op == "//" else f"and i64 {a}, {power - 1}"
            return put(depth, text, text)
        q = put(depth, ("sdiv", a, b), f"sdiv i64 {a}, {b}")
        r = put(depth, ("srem", a, b), f"srem i64 {a}, {b}")
        wrong = put(depth, ("xor", r, b), f"xor i64 {r}, {b}")
        neg = put(depth, ("neg", wrong), f"icmp slt i64 {wrong}, 0")
        some = put(depth, ("some", r), f"icmp ne i64 {r}, 0")
        fix = put(depth, ("and", neg, some), f"and i1 {neg}, {some}")
        if op == "//":
            less = put(depth, ("dec", q), f"sub i64 {q}, 1")
            return put(depth, ("floordiv", a, b), f"select i1 {fix}, i64 {less}, i64 {q}")
        more = put(depth, ("inc", r, b), f"add i64 {r}, {b}")
        return put(depth, ("floormod", a, b), f"select i1 {fix}, i64 {more}, i64 {r}")

    def _logic(self, e: x.Logic) -> tuple[str, int]:
        stop = "false" if e.op == "and" else "true"
        (a, da), (b, db) = self.int_value(e.a), self.int_value(e.b)
        if stop in (a, b):
            return stop, 0
        if a in ("true", "false"):
            return b, db
        if b in ("true", "false"):
            return a, da
        depth = max(da, db)
        text = f"{e.op} i1 {a}, {b}"
        return self.fn.hoist(depth, text, text), depth


def _literal(text: str) -> bool:
    return not text.startswith("%")


def _known(value: bool) -> str:
    return "true" if value else "false"
