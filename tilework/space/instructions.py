"""Instructions on groups of elements, as data: what a kind of machine has beside multiply-adds.

A row of a kind's table says what one computes; everything else is told by the row. Rules offer
it where its factors are found and the target has what it needs (`tilework.space.dots`), rows of
decisions keep tiles in whole groups, `tilework.lower.ir.Dot` names it in a loop program, whose
interpreter runs the meaning, and the kind's code generator has one emitter a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilework.dtypes import integer_range, is_float
from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.index.symbols import is_static
from tilework.te.expr import Binary, Cast, Const, Expr, binary
from tilework.te.functions import cast

Ints = Any
"""Integers, or arrays of them."""
Meaning = Callable[[Expr, Sequence[Expr], Sequence[Expr]], Expr]
"""One element of the result, given the sum so far and the terms of both operands."""


def sum_of_products(acc: Expr, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    """``acc + left[0] * right[0] + left[1] * right[1] ...`` in the accumulator's type."""
    for a, b in zip(left, right, strict=True):
        acc = binary("+", acc, binary("*", cast(acc.dtype, a), cast(acc.dtype, b)))
    return acc


@frozen(eq=False)
class Fragment:
    """What each thread of a warp holds of an operand.

    Attributes:
        registers: of a thread.
        element: row and term (of the result: row and column) that a thread has in a register,
            which may have several parts, given the numbers of all three.
    """

    registers: int
    element: Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]


@frozen(eq=False)
class Instruction:
    """``result[m, n] += sum over t < terms: left[m, t] * right[n, t]``, for whole operands.

    Attributes:
        name: by which emitters are found.
        left, right: element types of the operands, in the order in which they are taken.
        result: element type of the accumulator.
        terms: products that are added to each element of the result.
        rows, columns: points m and n that one instruction of a matrix unit computes; 1 where the
            result is a register of any width, each lane a point with its own operands.
        widths: lanes of the result that registers have, ascending; fewer are filled up. Empty
            where an instruction takes any number.
        needs: the target's feature, empty where every target of the kind has it.
        cost: what it takes as long as, its additions to the accumulator included: in multiply-adds
            of a whole register, or, in a matrix unit, of single numbers of its fastest type (of a
            CPU's unit: cycles).
        pairs: the largest sum of two neighbouring products that it can hold; 0: any.
        meaning: of one element of the result.
        fragments: where the threads of a warp hold left, right and result, if a warp computes it.
    """

    name: str
    left: str
    right: str
    result: str
    terms: int
    rows: int = 1
    columns: int = 1
    widths: tuple[int, ...] = ()
    needs: str = ""
    cost: float = 1.0
    pairs: int = 0
    meaning: Meaning = sum_of_products
    fragments: tuple[Fragment, Fragment, Fragment] | None = None

    def factors(self, source: Expr) -> tuple[Expr, Expr] | None:
        """The operands' elements in ``result(a) * result(b)``, in order; None of anything else."""
        if not (isinstance(source, Binary) and source.op == "*" and source.dtype == self.result):
            return None
        a, b = source.a, source.b
        if not (isinstance(a, Cast) and isinstance(b, Cast)):
            return None
        for x, y in ((a.a, b.a), (b.a, a.a)):
            if (x.dtype, y.dtype) == (self.left, self.right):
                fit = not self.pairs or 2 * magnitude(x) * magnitude(y) <= self.pairs
                return (x, y) if fit else None
        return None


@frozen(eq=False)
class Bounded:
    """``max(min(a, high), low)`` of integers: a factor that is declared to be in a range."""

    a: Expr
    low: int
    high: int

    @staticmethod
    def of(e: Expr) -> Bounded | None:
        """The form of an expression, if it is this one."""
        inner = e.a if isinstance(e, Binary) and e.op == "max" else None
        if not (isinstance(e, Binary) and isinstance(inner, Binary) and inner.op == "min"):
            return None
        low, high = e.b, inner.b
        if not (isinstance(low, Const) and isinstance(high, Const)) or is_float(e.dtype):
            return None
        ends = low.whole, high.whole
        if not is_static(ends):  # an index
            return None
        return Bounded(inner.a, known(ends[0]), known(ends[1]))


def magnitude(e: Expr) -> int:
    """The largest magnitude of an integer expression, as far as its form says."""
    bounded = Bounded.of(e)
    if bounded is not None:
        return max(abs(bounded.low), abs(bounded.high))
    bits = masked(e.a) if isinstance(e, Cast) else None
    if bits is not None and bits <= integer_range(e.dtype)[1]:
        return bits
    return max(map(abs, integer_range(e.dtype)))


def masked(e: Expr) -> int | None:
    """The largest value of an integer under a mask, or of a sum of such; None of others."""
    if not isinstance(e, Binary):
        return None
    if e.op == "+":
        a, b = masked(e.a), masked(e.b)
        return None if a is None or b is None else a + b
    mask = e.b.whole if e.op == "&" and isinstance(e.b, Const) else None
    return known(mask) if mask is not None and is_static((mask,)) and known(mask) >= 0 else None
