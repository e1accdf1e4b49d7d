"""Index expressions of loop programs, loads from memory included."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.form import Form, position
from tilework.lower.ir import Buffer
from tilework.te.affine import Known, sum_of
from tilework.te.expr import Axis, Binary, Compare, Const, Expr, IfThenElse, Select, walk


def mentions(e: Expr, var: Axis) -> bool:
    """Whether an expression varies with a variable."""
    return any(n is var for n in walk(e))


def flat(buffer: Buffer, indices: Sequence[Expr], known: Known | None = None) -> Form[Expr]:
    """Number of the element that is accessed."""
    return position((sum_of(i, known) for i in indices), buffer.strides)


def is_index(e: Expr) -> bool:
    """Whether an expression is made of loop variables and literals alone: it cannot overflow."""
    nodes = Const | Axis | Binary | Select | IfThenElse | Compare
    return all(isinstance(n, nodes) for n in walk(e))
