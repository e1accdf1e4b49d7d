"""Tensor expressions as one language: what a compute declaration's body is made of.

An expression is an immutable tree. Nodes compare by identity; structural equality is the business
of the canonical text (`te.printer`). Index arithmetic has dtype ``int32``, predicates ``bool``.

Nodes are defined in `te.arithmetic` and `te.nodes`, element types in `te.dtypes`, and what walks
through trees in `te.trees`.
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
from tilework.te.dtypes import (
    FLOAT_DTYPES,
    NARROW_FLOATS,
    dtype_bytes,
    finite_range,
    integer_range,
    is_float,
    is_integer,
    is_unsigned,
    wrapped,
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
    linear_axes,
    reads,
    rebuild,
    replace_axes,
    substitute,
    walk,
)

__all__ = [
    "BINARY", "FLOAT_DTYPES", "INTEGER_OPS", "NARROW_FLOATS", "REDUCTIONS", "Axis", "Binary",
    "Call", "Cast", "Compare", "Const", "Expr", "ExprLike", "IfThenElse", "Logic", "Lookup",
    "Not", "Read", "Reduce", "Select", "binary", "children", "compare", "dtype_bytes",
    "finite_range", "integer_range", "is_float", "is_integer", "is_unsigned", "linear_axes",
    "reads", "rebuild", "reduce_identity", "replace_axes", "substitute", "walk", "wrap",
    "wrapped",
]  # fmt: skip
