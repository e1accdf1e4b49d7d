"""Counts of a statement's operations, in the classes of the original's features.

A class is the kind of operation and whether its operands are floating-point. Arithmetic of indices
inside loads counts as integer operations, as written, without what splits of loops would add.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float
from tilework.te import expr as x

CLASSES = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
"""Of numbers; one set for floating-point operands, one for all others."""
NAMES = (
    *(f"float_{name}" for name in CLASSES),
    *(f"int_{name}" for name in CLASSES),
    "bool_op",
    "select_op",
)
_CLASS_OF = {"+": "addsub", "-": "addsub", "*": "mul", "max": "cmp", "min": "cmp"}


@dataclass(frozen=True, eq=False)
class Operations:
    """Number of operations of each class of `NAMES`, of one execution of a statement."""

    counts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(NAMES)))

    @property
    def floats(self) -> float:
        """All floating-point operations."""
        return float(self.counts[: len(CLASSES)].sum())


def operations_of(body: x.Expr) -> Operations:
    """Counts of a body; a reduction adds its combining operation to what it combines."""
    counts = np.zeros(len(NAMES))
    source = body
    if isinstance(body, x.Reduce):
        source = body.source
        kind = {"sum": "addsub", "prod": "mul"}.get(body.kind, "cmp")
        counts[_position(kind, body.dtype)] += 1
    for node in x.walk(source):
        name = _name(node)
        if name is not None:
            counts[name] += 1
    return Operations(counts)


def _name(node: x.Expr) -> int | None:
    match node:
        case x.Binary():
            return _position(_CLASS_OF.get(node.op, "divmod"), node.a.dtype)
        case x.Compare():
            return _position("cmp", node.a.dtype)
        case x.Call() | x.IfThenElse():
            return _position("mathfunc", node.dtype)
        case x.Logic() | x.Not():
            return NAMES.index("bool_op")
        case x.Select():
            return NAMES.index("select_op")
        case x.Const() | _:
            return None


def _position(kind: str, dtype: str) -> int:
    return NAMES.index(f"{'float' if is_float(dtype) else 'int'}_{kind}")
