"""Numbers of the loops as data: index arithmetic brought to an element type."""

from __future__ import annotations

from tilework.dtypes import NARROW_FLOATS, is_float
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.convert import convert
from tilework.kinds.cpu.llvm.integers import INDEX_TYPES, Integers, is_index_arithmetic
from tilework.kinds.cpu.llvm.ssa import LLVM_TYPE, Ssa, literal
from tilework.te.expr import Expr, walk


class IndexData:
    """Emits values of index arithmetic; owns what is known of which expressions are such."""

    def __init__(self, integers: Integers, arithmetic: Arithmetic) -> None:
        self.integers = integers
        self.arithmetic = arithmetic
        self._known: dict[int, tuple[Expr, bool]] = {}

    def covers(self, e: Expr) -> bool:
        """Whether a predicate or index uses loop variables and literals alone."""
        hit = self._known.get(id(e))
        if hit is None:
            hit = self._known[id(e)] = (e, all(map(is_index_arithmetic, walk(e))))
        return hit[1]

    def scalar(self, e: Expr, dtype: str) -> Ssa:
        """An integer as a number of another type.

        Raises:
            LaneDependent: it differs between the lanes of a vector loop.
        """
        ssa, _ = self.integers.int_value(e)
        emit = self.arithmetic.fn.emit
        if dtype in NARROW_FLOATS:
            return convert(self.arithmetic, self.scalar(e, "float32"), dtype)
        if not ssa.startswith("%"):
            return Ssa(literal(int(ssa), dtype), 1, dtype)
        if is_float(dtype):
            return Ssa(emit(f"sitofp i64 {ssa} to {LLVM_TYPE[dtype]}"), 1, dtype)
        if dtype == "bool":
            return Ssa(emit(f"icmp ne i64 {ssa}, 0"), 1, "bool")
        return self._resized(ssa, dtype)

    def plain(self, e: Expr) -> Ssa:
        """A predicate or integer in its own type.

        Raises:
            LaneDependent: it differs between the lanes of a vector loop.
        """
        ssa, _ = self.integers.int_value(e)
        return Ssa(ssa, 1, "bool") if e.dtype == "bool" else self._resized(ssa, e.dtype)

    def steps(self, e: Expr) -> Ssa | None:
        """A linear function of the vector loop's variable: its first value, and equal steps.

        None if ``e`` is no such function.
        """
        if e.dtype not in INDEX_TYPES or not self.covers(e):
            return None
        form = self.integers.form(e)
        if form is None:
            return None
        const, terms, step, lane = self.integers.bindings.split(form)
        if lane is None:
            return None
        first = self._resized(self.integers.sum(const, terms)[0], e.dtype)
        kind = LLVM_TYPE[e.dtype]
        known = step if isinstance(step, int) else 1
        steps = Ssa(
            f"<{', '.join(f'{kind} {known * i}' for i in range(lane.width))}>", lane.width, e.dtype
        )
        if not isinstance(step, int):
            each = self._resized(self.integers.literal(step), e.dtype)
            steps = self.arithmetic.binary("*", each, steps)
        return self.arithmetic.binary("+", first, steps)

    def _resized(self, ssa: str, dtype: str) -> Ssa:
        if LLVM_TYPE[dtype] == "i64" or not ssa.startswith("%"):
            return Ssa(ssa, 1, dtype)
        return Ssa(self.arithmetic.fn.emit(f"trunc i64 {ssa} to {LLVM_TYPE[dtype]}"), 1, dtype)
