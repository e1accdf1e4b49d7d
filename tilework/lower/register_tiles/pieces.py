"""Sums of many terms: pieces of some hundred terms are summed by themselves, then added up.

Each addition to a sum of float32 numbers rounds what there is so far: 100,000 of them one after
another are off by 1e-5 of what they are together. Before::

    acc = 0
    for k in K:  acc += a[k]

After, so that no term is rounded more often than a piece has terms and there are pieces::

    total = 0
    for p in 0 .. ceil(K / 256):
      acc = 0
      for k in p * 256 .. min(p * 256 + 256, K):  acc += a[k]
      total += acc

Totals lie in memory, which costs nothing beside a piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from tilework.frozen import frozen
from tilework.index.extents import known, most
from tilework.lower.common import bound, const, loop_var
from tilework.lower.ir import For, Stmt
from tilework.lower.register_tiles.loops import Loops
from tilework.te.expr import Axis, Expr, Reduce, binary

_LONG = 4096
"""Terms that may be added one after another."""
_LONG_ALIKE = 1024
"""The same where they may be alike, so that all additions round the same way (what is no product
with data reuse), and where a run says how many there are."""
_PIECE = 256, 1024
"""The fewest and the most terms of a piece: as many as there are pieces, if that is between."""


@frozen(eq=False)
class Pieces:
    """How the loop over an axis at the innermost reduce level is cut.

    Attributes:
        axis: the axis; loops around and inside it are not cut.
        each: steps of a piece, a multiple of the loop's body.
        wrap: what is done around a piece.
    """

    axis: Axis
    each: Expr
    wrap: Callable[[Stmt], Stmt]

    @staticmethod
    def of(
        loops: Loops,
        factors: Mapping[Axis, int],
        fixed: Collection[Axis],
        wrap: Callable[[Stmt], Stmt],
    ) -> Pieces | None:
        """The outermost loop whose steps are not too long themselves; None without one.

        Args:
            loops: the nest.
            factors: steps of a body, by axis.
            fixed: axes whose loops have ends of their own.
            wrap: as above.
        """
        inside, chosen = 1, None
        piece = min(max(_PIECE[0], 1 << _terms(loops).bit_length() // 2), _PIECE[1])
        steps: Expr = const(1)
        for axis in reversed(loops.block.reduce):
            count, many = loops.steps(axis), longest(loops, axis)
            if axis not in fixed and many > factors[axis] and inside <= _LONG:
                factor = const(factors[axis])
                whole = binary("*", binary("max", steps, const(1)), factor)
                bodies = binary("max", binary("//", const(piece), whole), const(1))
                chosen = Pieces(axis, binary("*", bodies, factor), wrap)
            inside *= many
            steps = binary("*", steps, count if isinstance(count, Expr) else const(count))
        return chosen

    def loop(self, var: Axis, steps: Expr, make: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """The loop over pieces.

        Args:
            var: the variable of the loop that is cut, which names this one.
            steps: how many steps there are.
            make: the code of those from a first one up to another.
        """
        number = loop_var(f"{var.name}.p", var.extent)
        first = binary("*", number, self.each)
        body = make(first, binary("min", binary("+", first, self.each), steps))
        up = binary("-", binary("+", steps, self.each), const(1))
        return For(number, bound(binary("//", up, self.each)), "serial", self.wrap(body))


def is_long(loops: Loops) -> bool:
    """Whether sums have so many terms that not all of them may be added one after another."""
    block = loops.block
    body = block.body
    if not isinstance(body, Reduce) or body.kind != "sum" or body.dtype != "float32":
        return False
    return _terms(loops) > _most(loops)


def has_pieces(loops: Loops) -> bool:
    """Whether a visit of a register tile has so many terms."""
    return math.prod(longest(loops, a) for a in loops.block.reduce) > _most(loops)


def longest(loops: Loops, axis: Axis) -> int:
    """The most steps of an axis at the innermost reduce level."""
    steps = loops.steps(axis)
    return known(loops.tile[axis][-1]) if isinstance(steps, Expr) else most(steps)


def _terms(loops: Loops) -> int:
    return math.prod(a.most for a in loops.block.reduce)


def _most(loops: Loops) -> int:
    """Terms of a sum that need no pieces."""
    block = loops.block
    reused = block.reduce_levels > 1 and not any(a.open for a in block.reduce)
    return _LONG if reused else _LONG_ALIKE
