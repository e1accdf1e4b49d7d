"""Operators of integers, as all of the compiler folds them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilework.index.symbols import Symbolic, Whole, certain, range_of

DIVISIONS = ("//", "%", "quot", "rem")


def towards_zero(a: int, b: int) -> int:
    """The quotient rounded towards zero, as C has it."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


FOLD: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
    "quot": towards_zero,
    "rem": lambda a, b: a - b * towards_zero(a, b),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
"""By operator: ``//`` and ``%`` round down, ``quot`` and ``rem`` towards zero."""

EXTENTS: dict[str, Callable[[Whole, Whole], Whole]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
"""Those that any two extents have."""

ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    **{op: FOLD[op] for op in "+-*"},
    "//": lambda a, b: a // np.maximum(b, 1),
    "%": lambda a, b: a % np.maximum(b, 1),
    "min": np.minimum,
    "max": np.maximum,
}
"""Those of index arithmetic, over arrays of points; nothing is divided by less than 1."""

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def folded(op: str, a: Whole, b: Whole) -> Whole | None:
    """``a op b`` before any type bounds it; None where it has no value that all agree on.

    Extents that a run brings have one where it is an extent, too.
    """
    if isinstance(a, Symbolic) or isinstance(b, Symbolic):
        return _folded_extents(op, a, b)
    fold = FOLD.get(op)
    if fold is None or (not b and op in DIVISIONS):
        return None
    return fold(a, b)


def _folded_extents(op: str, a: Whole, b: Whole) -> Whole | None:
    if op in ("+", "-", "*"):
        return EXTENTS[op](a, b)
    if op in ("max", "min"):
        low, high = (a, b) if op == "min" else (b, a)
        if certain(lambda: low <= high):
            return a
        return b if certain(lambda: high <= low) else None
    if op in ("quot", "rem") and range_of(a)[0] < 0:
        return None
    if op not in DIVISIONS or not isinstance(b, int) or b <= 0:
        return None
    return a // b if op in ("//", "quot") else a % b
