"""Counting floating-point operations of a compute declaration."""

from __future__ import annotations

import math

from tilework.te.expr import (
    Binary,
    Call,
    Cast,
    Compare,
    Expr,
    IfThenElse,
    Logic,
    Not,
    Reduce,
    Select,
    is_float,
)
from tilework.te.tensor import Compute


def op_flops(op: Compute) -> float:
    """Operations of one evaluation of ``op``: points times operations per point.

    The attribute ``FLOP`` overrides the estimate (sparse operators). Index arithmetic and padding
    predicates count nothing: only operations on values of the output's type class count. A call
    counts its arguments alone.
    """
    if "FLOP" in op.attrs:
        return float(op.attrs["FLOP"])
    return math.prod(op.shape) * _count(op.body, is_float(op.dtype))


def _count(e: Expr, floats: bool) -> float:
    def mine(x: Expr) -> bool:
        return x.dtype != "bool" and is_float(x.dtype) == floats

    match e:
        case Binary() | Compare():
            one = 1 if mine(e.a) or mine(e.b) else 0
            return one + _count(e.a, floats) + _count(e.b, floats)
        case Logic():
            return _count(e.a, floats) + _count(e.b, floats)
        case Not() | Cast():
            return _count(e.a, floats)
        case Select():
            return _count(e.cond, floats) + max(_count(e.a, floats), _count(e.b, floats))
        case IfThenElse():
            return sum(_count(x, floats) for x in (e.cond, e.a, e.b))
        case Call():
            return sum(_count(a, floats) for a in e.args)
        case Reduce():
            return math.prod(a.extent for a in e.axes) * (1 + _count(e.source, floats))
    return 0.0
