"""Addresses of buffer elements, in parts that are shared along a loop.

A constant part of an address is a displacement of the access, which costs nothing. A symbolic
one, such as that of row 3 of a tile in an array of S columns, is no displacement. Rows that the
innermost loop passes over along their length have a pointer each, made above that loop. Where that
loop moves by a symbolic step itself, as its expanded copies then do, each pointer is made of the
one before::

    for k: for u in 0..3 (expanded): ... += b[4*k + u, 0:16]      p = b + 4*k*S; p + S; p + S + S

So are rows of outputs, which a tile writes once: a pointer of each, made above the loop over
tiles, would lie on the stack, and move on with each tile.
"""

from __future__ import annotations

from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.index.symbols import Symbolic
from tilework.kinds.cpu.llvm.bindings import Terms
from tilework.kinds.cpu.llvm.integers import Integers
from tilework.kinds.cpu.llvm.ssa import BYTES
from tilework.lower.ir import Buffer
from tilework.te.affine import position
from tilework.te.expr import Axis, Expr


class Addresses:
    """Emits pointers; owns the linear forms of accesses."""

    def __init__(self, integers: Integers) -> None:
        self.integers = integers
        self._flat: dict[tuple[int, int], tuple[object, object, Form[Axis] | None]] = {}
        self._last: dict[tuple[str, Buffer, Terms], tuple[Extent, str]] = {}

    def flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Form[Axis] | None:
        """Linear form of an access's flat element index; None if it has none.

        It is worked out once for a tuple of indices, which accesses of an element may share.
        """
        key = id(buffer), id(indices)
        hit = self._flat.get(key)
        if hit is None:
            hit = self._flat[key] = (buffer, indices, position(indices, buffer.strides))
        return hit[2]

    def pointer(self, buffer: Buffer, terms: Terms, const: Extent) -> str:
        """Address of an element: a shared dynamic part, and a constant that the access folds."""
        size = BYTES[buffer.dtype]
        if isinstance(const, Symbolic):
            known = const.terms.get((), 0)
            p = self._moved(buffer, terms, const - known)
        else:
            known, p = const, self._shared(buffer, terms)
        if known == 0:
            return p
        return self.integers.fn.emit(f"getelementptr i8, ptr {p}, i64 {known * size}")

    def _shared(self, buffer: Buffer, terms: Terms) -> str:
        size = BYTES[buffer.dtype]
        fn = self.integers.fn
        p = self.integers.bindings.base[buffer]
        if terms:
            whole = fn.caches[terms[-1][2]].get(("ptr", id(buffer), terms))
            if whole is not None:
                return whole
        for i, (ssa, c, depth) in enumerate(terms):
            key = ("ptr", id(buffer), terms[: i + 1])
            shared = fn.caches[depth].get(key)
            if shared is None:
                off = self.integers.scaled(ssa, c * size, depth)
                shared = fn.hoist(depth, key, f"getelementptr i8, ptr {p}, i64 {off}")
            p = shared
        return p

    def _moved(self, buffer: Buffer, terms: Terms, offset: Extent) -> str:
        """A shared pointer moved by a symbolic number of elements."""
        integers, fn = self.integers, self.integers.fn
        if not (terms and (buffer.scope == "output" or isinstance(terms[-1][1], Symbolic))):
            return self._shared(buffer, ((integers.literal(offset), 1, 0), *terms))
        key = (fn.block.label, buffer, terms)
        before, last = self._last.get(key, (0, ""))
        last = last or self._shared(buffer, terms)
        if offset != before:
            step = integers.literal((offset - before) * BYTES[buffer.dtype])
            last = fn.emit(f"getelementptr i8, ptr {last}, i64 {step}")
        self._last[key] = offset, last
        return last

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
