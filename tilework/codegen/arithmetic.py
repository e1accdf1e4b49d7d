"""Arithmetic on SSA values: broadcasts, operators, comparisons, selection."""

from __future__ import annotations

from tilework.codegen.function import Function
from tilework.codegen.math_functions import MathLibrary
from tilework.codegen.types import SUFFIX, Value
from tilework.errors import ScheduleError
from tilework.te.expr import is_float

_FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul"}
_FCMP = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_ICMP = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}


class Arithmetic:
    """Emits operations; keeps the broadcasts of the current straight-line code."""

    def __init__(self, fn: Function, math: MathLibrary) -> None:
        self.fn = fn
        self.math = math
        self._splats: dict[tuple[str, str, int], Value] = {}

    def forget(self) -> None:
        """Start of a new basic block: no broadcast made so far may be reused."""
        self._splats.clear()

    def splat(self, v: Value, width: int) -> Value:
        """``v`` repeated ``width`` times."""
        if v.width == width:
            return v
        key = (v.ssa, v.dtype, width)
        found = self._splats.get(key)
        if found is None:
            out = Value("", width, v.dtype)
            if not v.ssa.startswith("%"):
                elems = ", ".join([f"{v.type} {v.ssa}"] * width)
                found = Value(f"<{elems}>", width, v.dtype)
            else:
                one = self.fn.emit(f"insertelement {out.type} poison, {v.type} {v.ssa}, i32 0")
                ssa = self.fn.emit(
                    f"shufflevector {out.type} {one}, {out.type} poison, "
                    f"<{width} x i32> zeroinitializer"
                )
                found = Value(ssa, width, v.dtype)
            self._splats[key] = found
        return found

    def match(self, *values: Value) -> list[Value]:
        """The values broadcast to a common width."""
        width = max(v.width for v in values)
        return [self.splat(v, width) for v in values]

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """``x * y + z``, fused where the target can."""
        a, b, c = self.match(x, y, z)
        name = f"llvm.fmuladd.{_suffix(a)}"
        self.math.declare(f"declare {a.type} @{name}({a.type}, {a.type}, {a.type})")
        text = f"call {a.type} @{name}({a.type} {a.ssa}, {a.type} {b.ssa}, {a.type} {c.ssa})"
        return Value(self.fn.emit(text), a.width, a.dtype)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        """``x op y`` on operands broadcast to a common width.

        Raises:
            ScheduleError: the operator is not defined for the type.
        """
        a, b = self.match(x, y)
        if op in ("max", "min"):
            # One instruction, and a NaN on the left stays: max(x, 0) of NaN is NaN.
            other = _compare(a, "<" if op == "max" else ">")
            c = self.fn.emit(f"{other} {a.type} {a.ssa}, {b.ssa}")
            return self.select(Value(c, a.width, "bool"), b, a)
        if is_float(a.dtype):
            if op not in _FLOAT_OPS:
                raise ScheduleError(f"operator {op} is not defined for {a.dtype}")
            return Value(
                self.fn.emit(f"{_FLOAT_OPS[op]} {a.type} {a.ssa}, {b.ssa}"), a.width, a.dtype
            )
        if op in ("//", "%"):
            return self._floor(op, a, b)
        if op not in _INT_OPS:
            raise ScheduleError(f"operator {op} is not supported on {a.dtype} data")
        return Value(self.fn.emit(f"{_INT_OPS[op]} {a.type} {a.ssa}, {b.ssa}"), a.width, a.dtype)

    def _floor(self, op: str, a: Value, b: Value) -> Value:
        """Integer division and remainder that round down, whatever the signs.

        A divisor of zero, which a guard may be there to discard, must not trap.
        """

        def put(text: str, x: str, y: str) -> str:
            return self.fn.emit(f"{text} {a.type} {x}, {y}")

        one = self.splat(Value("1", 1, a.dtype), a.width)
        if "%" in b.ssa:
            zero = self.splat(Value("0", 1, a.dtype), a.width)
            b = self.select(self.compare("==", b, zero), one, b)
        if a.dtype.startswith("u"):
            return Value(put("udiv" if op == "//" else "urem", a.ssa, b.ssa), a.width, a.dtype)
        none = self.splat(Value("0", 1, a.dtype), a.width).ssa
        rest = put("srem", a.ssa, b.ssa)
        signs = put("icmp slt", put("xor", rest, b.ssa), none)
        some = put("icmp ne", rest, none)
        bits = Value("", a.width, "bool").type
        fix = self.fn.emit(f"and {bits} {signs}, {some}")
        if op == "%":
            changed, plain = put("add", rest, b.ssa), rest
        else:
            plain = put("sdiv", a.ssa, b.ssa)
            changed = put("sub", plain, one.ssa)
        text = f"select {bits} {fix}, {a.type} {changed}, {a.type} {plain}"
        return Value(self.fn.emit(text), a.width, a.dtype)

    def select(self, cond: Value, x: Value, y: Value) -> Value:
        """``cond ? x : y``, per lane if ``cond`` is a vector."""
        a, b = self.match(x, y)
        if cond.width > 1:
            a, b = self.splat(a, cond.width), self.splat(b, cond.width)
        text = f"select {cond.type} {cond.ssa}, {a.type} {a.ssa}, {b.type} {b.ssa}"
        return Value(self.fn.emit(text), a.width, a.dtype)

    def compare(self, op: str, x: Value, y: Value) -> Value:
        """The predicate ``x op y``."""
        a, b = self.match(x, y)
        return Value(self.fn.emit(f"{_compare(a, op)} {a.type} {a.ssa}, {b.ssa}"), a.width, "bool")


def _compare(v: Value, op: str) -> str:
    """The comparison instruction for the type of ``v``."""
    if is_float(v.dtype):
        return f"fcmp {_FCMP[op]}"
    kind = _ICMP[op]
    if v.dtype == "bool" or v.dtype.startswith("u"):
        kind = kind.replace("s", "u", 1)
    return f"icmp {kind}"


def _suffix(v: Value) -> str:
    return SUFFIX[v.dtype] if v.width == 1 else f"v{v.width}{SUFFIX[v.dtype]}"
