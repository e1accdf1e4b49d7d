"""Index expressions of loop programs, loads from memory included."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.form import Form, position
from tilework.lower.ir import Buffer, Load
from tilework.te.affine import Known, sum_of
from tilework.te.expr import Axis, Binary, Compare, Const, Expr, IfThenElse, Select, children


def parts(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, the indices of a load included."""
    return e.indices if isinstance(e, Load) else children(e)


def mentions(e: Expr, var: Axis) -> bool:
    """Whether an expression varies with a variable."""
    return e is var or any(mentions(p, var) for p in parts(e))


def flat(buffer: Buffer, indices: Sequence[Expr], known: Known | None = None) -> Form[Expr]:
    """Number of the element that is accessed."""
    return position((sum_of(i, known) for i in indices), buffer.strides)


def is_index(e: Expr) -> bool:
    """Whether an expression is made of loop variables and literals alone: it cannot overflow."""
    match e:
        case Const() | Axis():
            return True
        case Binary():
            return is_index(e.a) and is_index(e.b)
        case Select() | IfThenElse():
            return is_index(e.cond) and is_index(e.a) and is_index(e.b)
        case Compare():
            return is_index(e.a) and is_index(e.b)
    return False
