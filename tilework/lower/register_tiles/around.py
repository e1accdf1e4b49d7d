"""Loops around the versions of a tile, inside of the conditions that do not depend on them.

Which version of a tile serves, where a run decides an extent, is the same for all vectors that
stand at one place::

    for x: for c:  x is inside ?  A(x, c)  :  B(x, c)

becomes::

    for x:  x is inside ?  (for c: A(x, c))  :  (for c: B(x, c))

so that each version computes its own addresses alone, once for all of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.lower.common import LoopSpec, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import If, Let, Stmt
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, walk


def unswitched(loops: Sequence[LoopSpec], body: Stmt) -> Stmt:
    """As `nest`, each loop inside of the conditions and names above ``body`` that lack it."""
    for loop in reversed(loops):
        body = _inside(loop, body)
    return body


def _inside(loop: LoopSpec, body: Stmt) -> Stmt:
    match body:
        case If() if _lacks(body.cond, loop[0]):
            other = None if body.orelse is None else _inside(loop, body.orelse)
            return If(body.cond, _inside(loop, body.then), other)
        case Let() if _lacks(body.value, loop[0]):
            return Let(body.var, body.value, _inside(loop, body.body))
    return nest([loop], body)


def _lacks(e: Expr, var: Axis) -> bool:
    return all(node is not var for node in walk(e))


@frozen(eq=False)
class OuterLoops:
    """Two levels of loops: those over tiles, around what `dispatch` makes of a tile.

    Attributes:
        vars: loop variables of the outer level.
        tile: points of a whole tile.
        base: the first point of a tile.
    """

    nest: BlockNest
    vars: dict[Axis, Axis]
    tile: dict[Axis, int]
    base: dict[Axis, Expr]

    @staticmethod
    def of(block_nest: BlockNest, axes: Sequence[Axis]) -> OuterLoops:
        """The loops over these axes of a block."""
        cut = {a: block_nest.loops(a) for a in axes}
        vars_ = {a: loop_var(f"{a.name}.0", cut[a][0]) for a in axes}
        tile = {a: known(cut[a][-1]) for a in axes}
        base = {a: weighted_sum([(var_or_zero(vars_[a]), tile[a])]) for a in axes}
        return OuterLoops(block_nest, vars_, tile, base)

    def around(self, axes: Sequence[Axis], body: Stmt) -> tuple[tuple[Axis, ...], Stmt]:
        """Variables that are parallel, and ``body`` in the loops over the other ``axes``."""
        vars_ = [self.vars[a] for a in axes]
        fused = int(self.nest.parallel[0])
        serial = [(v, v.extent, "serial") for v in vars_[fused:]]
        return tuple(v for v in vars_[:fused] if v.extent != 1), nest(serial, body)
