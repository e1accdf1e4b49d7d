"""The dot product of pairs of bfloat16 (AVX512_BF16): two multiply-adds per lane and instruction.

``acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1]`` for the lanes i of a register. The instruction
rounds after each addition, and takes and gives zeros for denormal numbers.
"""

from __future__ import annotations

from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.convert import FEATURE, halves
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.lanes import LaneDependent
from tilework.kinds.cpu.llvm.load_store import LoadKey, LoadStore
from tilework.kinds.cpu.llvm.ssa import Ssa, vector_type
from tilework.lower.ir import Load
from tilework.te.expr import Const, Expr, IfThenElse

_SMALLEST = 4
_PAIR = -2
"""In place of a width: two elements as one integer."""


class PairDot:
    """Emits dot products of pairs; owns the repeated pairs of the current straight-line code."""

    def __init__(self, memory: LoadStore, arithmetic: Arithmetic) -> None:
        self.memory = memory
        self.arithmetic = arithmetic
        self.addresses = memory.addresses
        self.integers = memory.addresses.integers
        self.fn = arithmetic.fn
        self._repeats: dict[tuple[str, str], str] = {}

    def forget(self) -> None:
        """Start of a new basic block: no pair repeated so far may be reused."""
        self._repeats.clear()

    def dot(self, acc: Ssa, left: str, right: str) -> Ssa:
        """``acc`` and the products of two operands' pairs, lane by lane; see `operand`."""
        # A pair repeated in all lanes comes last: there it may be read by the instruction.
        if left in self._repeats.values():
            left, right = right, left
        declarations = self.arithmetic.declarations
        if FEATURE["bfloat16"] in declarations.features:
            return pair_instruction(self.fn, declarations, acc, left, right)
        wide = (halves(self.arithmetic, v, acc.width) for v in (left, right))
        for x, y in zip(*wide, strict=True):
            acc = self.arithmetic.multiply_add(x, y, acc)
        return acc

    def operand(self, first: Expr, second: Expr, width: int) -> str | None:
        """The pairs of an operand: ``2 * width`` bfloat16; None if they lie in no such order."""
        if isinstance(first, IfThenElse) and isinstance(second, IfThenElse):
            try:
                cond, _ = self.integers.int_value(first.cond)
            except LaneDependent:
                return None
            if cond in ("true", "false"):
                taken = (first.a, second.a) if cond == "true" else (first.b, second.b)
                return self.operand(*taken, width)
            with self.memory.guarded(cond):
                one = self._pair_scalar(first.a, second.a)
            if one is None:
                return None
            chosen = self.arithmetic.select(Ssa(cond, 1, "bool"), one, Ssa("0", 1, "int32"))
            return self._repeated(chosen, width)
        if isinstance(first, Const):
            return "zeroinitializer" if first.value == 0 else None
        if not (isinstance(first, Load) and isinstance(second, Load)):
            return None
        form = self.addresses.flat(first, first.buffer, first.indices)
        if form is None:
            return None
        const, terms, lane_c, lane = self.integers.bindings.split(form)
        if lane is None or lane_c == 0:
            one = self._pair_scalar(first, second)
            return self._repeated(one, width) if one is not None else None
        if lane_c != 2 or self.memory.guards or not self._neighbours(first, second):
            return None
        key: LoadKey = (first.buffer, terms, const, 2 * width, 2 * width, ())
        if key not in self.memory.loads:
            pointer = self.addresses.pointer(first.buffer, terms, const)
            self.memory.loads[key] = self.memory.load_at(
                first.buffer, pointer, 2 * width, 2 * width
            )
        return self.memory.loads[key].ssa

    def _pair_scalar(self, first: Expr, second: Expr) -> Ssa | None:
        """Two neighbours as one 32-bit integer."""
        if not (isinstance(first, Load) and isinstance(second, Load)):
            return None
        form = self.addresses.flat(first, first.buffer, first.indices)
        if form is None or not self._neighbours(first, second):
            return None
        const, terms, lane_c, _ = self.integers.bindings.split(form)
        if lane_c:
            return None
        key = (first.buffer, terms, const, _PAIR, 1, tuple(self.memory.guards))
        if key not in self.memory.loads:
            pointer = self.memory.guarded_pointer(
                first.buffer, self.addresses.pointer(first.buffer, terms, const)
            )
            ssa = self.fn.emit(f"load i32, ptr {pointer}, align 2")
            self.memory.loads[key] = Ssa(ssa, 1, "int32")
        return self.memory.loads[key]

    def _neighbours(self, first: Load, second: Load) -> bool:
        """Whether the second element follows the first in memory."""
        a = self.addresses.flat(first, first.buffer, first.indices)
        b = self.addresses.flat(second, second.buffer, second.indices)
        if first.buffer is not second.buffer or a is None or b is None:
            return False
        return a.coefficients == b.coefficients and b.const == a.const + 1

    def _repeated(self, pair: Ssa, width: int) -> str:
        """One pair in every lane."""
        v = self.arithmetic.splat(pair, width)
        kind = vector_type("bfloat16", 2 * width)
        key = (v.ssa, kind)
        if key not in self._repeats:
            self._repeats[key] = self.fn.emit(f"bitcast {v.type} {v.ssa} to {kind}")
        return self._repeats[key]


def pair_instruction(fn: Function, declarations: Declarations, acc: Ssa, a: str, b: str) -> Ssa:
    """Emit the instruction.

    Args:
        fn: the function that it goes to.
        declarations: take the intrinsic's.
        acc: float32, scalar or vector.
        a, b: SSA values of twice as many bfloat16.
    """
    lanes = max(acc.width, _SMALLEST)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    floats, pairs = vector_type("float32", lanes), vector_type("bfloat16", 2 * lanes)
    declarations.declare(f"declare {floats} @{name}({floats}, {pairs}, {pairs})")
    x = acc.ssa
    if acc.width < lanes:
        a, b = (_grown(fn, v, 2 * acc.width, 2 * lanes) for v in (a, b))
        if acc.width == 1:
            x = fn.emit(f"insertelement {floats} poison, float {x}, i32 0")
        else:
            x = _grown(fn, x, acc.width, lanes, "float32")
    out = fn.emit(f"call {floats} @{name}({floats} {x}, {pairs} {a}, {pairs} {b})")
    if acc.width == 1:
        out = fn.emit(f"extractelement {floats} {out}, i32 0")
    elif acc.width < lanes:
        out = _shuffled(fn, out, floats, lanes, [str(i) for i in range(acc.width)])
    return Ssa(out, acc.width, "float32")


def _grown(fn: Function, ssa: str, width: int, to: int, dtype: str = "bfloat16") -> str:
    """A vector with undefined elements behind its own."""
    lanes = [str(i) if i < width else "poison" for i in range(to)]
    return _shuffled(fn, ssa, vector_type(dtype, width), width, lanes)


def _shuffled(fn: Function, ssa: str, kind: str, width: int, lanes: list[str]) -> str:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return fn.emit(f"shufflevector {kind} {ssa}, {kind} poison, <{len(lanes)} x i32> <{order}>")
