"""Loops inside of conditions that do not depend on them.

Which version of a tile serves, where a run decides an extent, is the same for all vectors that
stand at one place::

    for x: for c:  x is inside ?  A(x, c)  :  B(x, c)

becomes::

    for x:  x is inside ?  (for c: A(x, c))  :  (for c: B(x, c))

so that each version computes its own addresses alone, once for all of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.lower.common import LoopSpec, nest
from tilework.lower.ir import VALUES, If, Let, Stmt
from tilework.te.expr import Expr, walk


def unswitched(loops: Sequence[LoopSpec], body: Stmt) -> Stmt:
    """As `nest`, each loop inside of the conditions and names above ``body`` that lack it."""
    for loop in reversed(loops):
        body = _inside(loop, body)
    return body


def _inside(loop: LoopSpec, body: Stmt) -> Stmt:
    var, extent, _ = loop
    if extent == 1:
        return body
    match body:
        case If() if _lacks(body.cond, loop):
            other = None if body.orelse is None else _inside(loop, body.orelse)
            return If(body.cond, _inside(loop, body.then), other)
        case Let() if _lacks(body.value, loop):
            return Let(body.var, body.value, _inside(loop, body.body))
    return nest([loop], body)


def _lacks(e: Expr, loop: LoopSpec) -> bool:
    return all(node is not loop[0] for node in walk(e, VALUES))
