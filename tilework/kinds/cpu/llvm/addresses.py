"""Addresses of buffer elements, in parts that are shared along a loop."""

from __future__ import annotations

from tilework.index.form import Form, position_if
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.integers import Integers
from tilework.kinds.cpu.llvm.ssa import BYTES
from tilework.lower.ir import Buffer
from tilework.te.expr import Axis, Expr


class Addresses:
    """Emits pointers; owns the linear forms of accesses."""

    def __init__(self, integers: Integers) -> None:
        self.integers = integers
        self._flat: dict[int, tuple[object, Form[Axis] | None]] = {}

    def flat(self, key: object, buffer: Buffer, indices: tuple[Expr, ...]) -> Form[Axis] | None:
        """Linear form of an access's flat element index; None if it has none.

        Args:
            key: the access itself, under which the form is kept.
            buffer, indices: what is accessed.
        """
        hit = self._flat.get(id(key))
        if hit is None:
            forms = [self.integers.form(i) for i in indices]
            hit = self._flat[id(key)] = (key, position_if(forms, buffer.strides))
        return hit[1]

    def pointer(self, buffer: Buffer, terms: Terms, const: int) -> str:
        """Address of an element: a shared dynamic part, and a constant that the access folds."""
        size = BYTES[buffer.dtype]
        fn = self.integers.fn
        p = self.integers.bindings.base[buffer]
        for i, (ssa, c, depth) in enumerate(terms):
            key = ("ptr", id(buffer), terms[: i + 1])
            found = fn.caches[depth].get(key)
            if found is None:
                off = ssa
                if c * size != 1:
                    off = fn.hoist(depth, ("mul", ssa, c * size), f"mul nsw i64 {ssa}, {c * size}")
                found = fn.hoist(depth, key, f"getelementptr i8, ptr {p}, i64 {off}")
            p = found
        if const == 0:
            return p
        return fn.emit(f"getelementptr i8, ptr {p}, i64 {const * size}")

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """Address of an element whose index has no linear form.

        Raises:
            LaneDependent: it differs between the lanes of a vector loop.
        """
        value, _ = self.integers.flat_index(buffer, indices)
        fn = self.integers.fn
        off = fn.emit(f"mul nsw i64 {value}, {BYTES[buffer.dtype]}")
        base = self.integers.bindings.base[buffer]
        return fn.emit(f"getelementptr i8, ptr {base}, i64 {off}")
