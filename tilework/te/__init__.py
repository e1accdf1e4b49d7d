"""Tensor expressions: declare what is computed, not how."""

from __future__ import annotations

from tilework.te.dag import ComputeDAG
from tilework.te.evaluate import evaluate
from tilework.te.expr import Axis, Const, Expr, Read, Reduce
from tilework.te.functions import (
    MATH_FUNCTIONS,
    abs,
    all,
    any,
    call,
    cast,
    ceil,
    const,
    cos,
    equal,
    erf,
    exp,
    floor,
    floordiv,
    floormod,
    if_then_else,
    log,
    logical_not,
    max,
    maximum,
    min,
    minimum,
    not_equal,
    pow,
    relu,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sqrt,
    sum,
    tanh,
)
from tilework.te.tensor import Compute, Placeholder, Tensor, compute, placeholder, reduce_axis

__all__ = [
    "MATH_FUNCTIONS", "Axis", "Compute", "ComputeDAG", "Const", "Expr", "Placeholder", "Read",
    "Reduce", "Tensor", "abs", "all", "any", "call", "cast", "ceil", "compute", "const", "cos",
    "equal", "erf", "evaluate", "exp", "floor", "floordiv", "floormod", "if_then_else", "log",
    "logical_not", "max", "maximum", "min", "minimum", "not_equal", "placeholder", "pow",
    "reduce_axis", "relu", "round", "rsqrt", "select", "sigmoid", "sin", "sqrt", "sum", "tanh",
]  # fmt: skip
