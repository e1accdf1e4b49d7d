"""Counting floating-point operations of a compute declaration."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilework.te.dtypes import is_float
from tilework.te.expr import (
    Axis,
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
)
from tilework.te.tensor import Compute


def op_flops(op: Compute, real: bool = False) -> float:
    """Operations of one evaluation of ``op``: points times operations per point.

    The attribute ``FLOP`` overrides the estimate. Index arithmetic and padding predicates count
    nothing: only operations on values of the output's type class count. A call counts its
    arguments alone.

    Args:
        op: the operation.
        real: where data decide how many terms a sum has (sparse operators), count those that
            there are on average (`mean_terms`) instead of all that there could be.
    """
    if "FLOP" in op.attrs:
        return float(op.attrs["FLOP"])
    terms = mean_terms(op) if real else {}
    return math.prod(op.shape) * _count(op.body, is_float(op.dtype), terms)


def mean_terms(op: Compute) -> dict[Axis, float]:
    """How many terms the axes with limits have on average, as the attribute ``terms`` says.

    It names axes: ``{"e": 12.5}``. Without it, an axis counts with its extent.
    """
    if not isinstance(op.body, Reduce):
        return {}
    known = op.attrs.get("terms", {})
    return {a: float(known.get(a.name, a.extent)) for a, _ in op.body.limits}


def _count(e: Expr, floats: bool, terms: Mapping[Axis, float]) -> float:
    def mine(x: Expr) -> bool:
        return x.dtype != "bool" and is_float(x.dtype) == floats

    match e:
        case Binary() | Compare():
            one = 1 if mine(e.a) or mine(e.b) else 0
            return one + _count(e.a, floats, terms) + _count(e.b, floats, terms)
        case Logic():
            return _count(e.a, floats, terms) + _count(e.b, floats, terms)
        case Not() | Cast():
            return _count(e.a, floats, terms)
        case Select():
            return _count(e.cond, floats, terms) + max(
                _count(e.a, floats, terms), _count(e.b, floats, terms)
            )
        case IfThenElse():
            return sum(_count(x, floats, terms) for x in (e.cond, e.a, e.b))
        case Call():
            return sum(_count(a, floats, terms) for a in e.args)
        case Reduce():
            points = math.prod(terms.get(a, a.extent) for a in e.axes)
            return points * (1 + _count(e.source, floats, terms))
    return 0.0
