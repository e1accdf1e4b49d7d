"""Operators of integers, as all of the compiler folds them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

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


def folded(op: str, a: int, b: int) -> int | None:
    """``a op b`` before any type bounds it; None where it has no value that all agree on."""
    fold = FOLD.get(op)
    if fold is None or (not b and op in DIVISIONS):
        return None
    return fold(a, b)
