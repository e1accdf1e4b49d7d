"""Tensor expressions as one language: what a compute declaration's body is made of.

An expression is an immutable tree. Nodes compare by identity; structural equality is the business
of the canonical text (`te.printer`). Index arithmetic has dtype ``int32``, predicates ``bool``.

Nodes are defined in `te.arithmetic` and `te.nodes`, element types in `tilework.dtypes`, and what
walks through trees in `te.trees`.
"""

from __future__ import annotations

from tilework.te.arithmetic import (
    BINARY,
    INTEGER_OPS,
    Binary,
    Compare,
    Const,
    Expr,
    ExprLike,
    binary,
    compare,
    wrap,
)
from tilework.te.nodes import (
    REDUCTIONS,
    Axis,
    Call,
    Cast,
    IfThenElse,
    Logic,
    Lookup,
    Not,
    Read,
    Reduce,
    Select,
    reduce_identity,
)
from tilework.te.trees import (
    children,
    nodes,
    reads,
    rebuild,
    replace_axes,
    rewritten,
    substitute,
    walk,
)

__all__ = [
    "BINARY", "INTEGER_OPS", "REDUCTIONS", "Axis", "Binary",
    "Call", "Cast", "Compare", "Const", "Expr", "ExprLike", "IfThenElse", "Logic", "Lookup",
    "Not", "Read", "Reduce", "Select", "binary", "children", "compare",
    "nodes", "reads", "rebuild", "reduce_identity", "replace_axes", "rewritten", "substitute",
    "walk", "wrap",
]  # fmt: skip
