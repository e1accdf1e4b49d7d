"""What conditions around a statement say of the numbers that it uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilework.te.expr import Axis, Compare, Const, Expr

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_OVER = {">": 1, ">=": 0, "==": 0}
"""How far the least value lies over the number that a variable is compared with."""


class Facts:
    """Least values of index variables, as far as the conditions around tell."""

    def __init__(self) -> None:
        self._least: Mapping[Axis, int] = {}

    def reaches(self, e: Expr, value: int) -> bool:
        """Whether an expression is known to be so large."""
        return isinstance(e, Axis) and self._least.get(e, value - 1) >= value

    @contextmanager
    def where(self, cond: Expr, holds: bool) -> Iterator[None]:
        """In a branch of a condition."""
        before = self._least
        match cond:
            case Compare(a=Axis() as axis, b=Const(value=int(number))):
                op = cond.op if holds else _OPPOSITE[cond.op]
                if op in _OVER:
                    least = number + _OVER[op]
                    self._least = {**before, axis: max(before.get(axis, least), least)}
        yield
        self._least = before
