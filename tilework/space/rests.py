"""Rests: the terms of a sum behind whole groups of neighbours, as many as a run says.

``u < rest ? x[at + u] : 0`` along an axis, as `tilework.space.rfactor` writes it.
"""

from __future__ import annotations

from tilework.index.symbols import Symbolic
from tilework.te.expr import Axis, Compare, Const, Expr, IfThenElse, walk


def rest_of(e: IfThenElse, axis: Axis) -> Expr | None:
    """How many points of an axis have a term, if that is what a choice asks and a run decides."""
    match e.cond:
        case Compare(op="<", a=a, b=Const(value=Symbolic()) as rest) if a is axis:
            return rest
    return None


def has_rest(e: Expr, axis: Axis) -> bool:
    """Whether some terms along an axis are there if a run says so."""
    return any(isinstance(n, IfThenElse) and rest_of(n, axis) is not None for n in walk(e))
