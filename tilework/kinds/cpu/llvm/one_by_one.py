"""Vectors of a tile that end in a math function: each is finished before the next one begins.

Beside the sums of a tile, 16 registers leave a few, and a function of some thirty instructions
needs no more of them for one vector. But LLVM's scheduler puts the divisions of all vectors last,
side by side, so that what they wait for goes to the stack; of a reduction that is expanded as a
whole it does the same with the last products. The stores themselves cost little. Where they lie
at the same offset of a page of 4 KiB as a number that the functions read, though, loads wait for
stores that they only look to depend on: some processes, by where their stack lies, would take 1.2
to 1.6 times as long.

What holds the order is a piece of assembly without an instruction. It takes a sum and hands it
on, and no access to memory is moved across it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.math_calls import INLINED
from tilework.kinds.cpu.llvm.ssa import Ssa
from tilework.lower.ir import VALUES, Buffer, Store
from tilework.te.expr import Call, walk

Key = tuple[Buffer, int]
"""A register buffer, and the element at which a value begins."""
_MANY = frozenset({"avx512f", "neon"})
"""Features of CPUs with twice as many vector registers."""
_REGISTERS = 16
_TYPES = frozenset({"<4 x float>", "<8 x float>"})
"""Of vectors that fill a register of SSE or AVX."""


class OneByOne:
    """Hands out the sums of a tile such that vectors are finished one by one."""

    def __init__(self, fn: Function, features: frozenset[str]) -> None:
        self.fn = fn
        self._few = _MANY.isdisjoint(features)
        self._ends: dict[int, tuple[Store, bool]] = {}
        self._kept: dict[Key, int] = {}  # in which block
        self._own: dict[Key, Ssa] | None = None  # what the vector under way was given
        self._last: dict[Key, tuple[Ssa, Ssa]] = {}  # a sum, and what was handed on of it last

    def kept(self, key: Key) -> None:
        """A register gets a value."""
        self._kept[key] = len(self.fn.blocks)

    def forget(self) -> None:
        """Start of a new basic block."""
        self._own = None
        self._last.clear()

    def begin(self, s: Store) -> None:
        """The vector under way is that of a store: a long one begins behind all stores so far."""
        if self._few:
            self._own = {} if self._ends_in_math(s) else None

    @property
    def under_way(self) -> bool:
        """Whether sums are handed on for a vector that ends in a function."""
        return self._own is not None

    def leave(self) -> None:
        """The vector under way, if any, is done."""
        self._own = None

    def handed_on(self, values: Mapping[Key, Ssa], key: Key) -> Ssa:
        """What a register holds, for the vector under way.

        The first vector waits for all sums of its tile: those from within the innermost loop. What
        an outer one brings stays as it is for the next step. Sums that registers cannot hold, such
        as those of a Winograd transform, are taken in any order.
        """
        if self._own is None:
            return values[key]
        if key not in self._own:
            sums = [k for k, v in values.items() if k[0] is key[0] and self._counts(k, v)]
            if not 2 <= len(sums) < _REGISTERS or key not in sums:
                return values[key]
            for k in sums:
                if k not in self._last or self._last[k][0] is not values[k]:
                    self._last[k] = values[k], self._behind(values[k])
            self._own[key] = self._behind(self._last[key][1])
            self._last[key] = values[key], self._own[key]
        return self._own[key]

    def _counts(self, key: Key, v: Ssa) -> bool:
        return v.type in _TYPES and self._kept.get(key, 0) > self.fn.heads[-1]

    def _behind(self, v: Ssa) -> Ssa:
        text = f'call {v.type} asm sideeffect "", "=x,0,~{{memory}}"({v.type} {v.ssa})'
        return Ssa(self.fn.emit(text), v.width, v.dtype)

    def _ends_in_math(self, s: Store) -> bool:
        """Whether a value goes to memory through a function that is written out."""
        if s.buffer.scope == "register":
            return False
        hit = self._ends.get(id(s))
        if hit is None:
            calls = (n for n in walk(s.value, VALUES) if isinstance(n, Call))
            hit = self._ends[id(s)] = (s, any(n.name in INLINED for n in calls))
        return hit[1]
