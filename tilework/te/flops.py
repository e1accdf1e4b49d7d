"""Counting floating-point operations of a compute declaration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tilework.dtypes import is_float
from tilework.index.extents import Extent, size, typical, typicals
from tilework.te.expr import Axis, Binary, Compare, Expr, Lookup, Read, Reduce, Select, children
from tilework.te.meant import meant
from tilework.te.tensor import Compute


def op_flops(op: Compute, real: bool = False) -> float:
    """Operations of one evaluation of ``op``: points times operations per point.

    Where a run decides extents, those of typical ones.

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
    count = _count(op.body, is_float(op.dtype), terms, typical)
    return float(math.prod(typicals(_shape(op))) * count)


def flops_of_run(op: Compute) -> Extent:
    """Operations of one evaluation as an extent, in the words of what a run brings.

    Raises:
        Undecided: which of two branches has more of them, a run decides.
        ValueError: data decide how many terms a sum has, or ``FLOP`` says another number.
    """
    if "FLOP" in op.attrs or "terms" in op.attrs:
        raise ValueError(f"operations of {op.name} are no matter of its extents")
    each: Extent = _count(op.body, is_float(op.dtype), {}, lambda extent: extent)
    return size(_shape(op)) * each


def _shape(op: Compute) -> tuple[Extent, ...]:
    """The points that each term counts at: see `tilework.te.meant`."""
    each = meant(op.body)
    return tuple(a.extent for a in op.axes if each is None or a is not each.axis)


def mean_terms(op: Compute) -> dict[Axis, float]:
    """How many terms the axes with limits have on average, as the attribute ``terms`` says.

    It names axes: ``{"e": 12.5}``. Without it, an axis counts with its extent.
    """
    if not isinstance(op.body, Reduce):
        return {}
    known = op.attrs.get("terms", {})
    return {a: float(known.get(a.name, a.typical)) for a, _ in op.body.limits}


def _count(
    e: Expr, floats: bool, terms: Mapping[Axis, float], number: Callable[[Extent], Any]
) -> Any:
    def mine(x: Expr) -> bool:
        return x.dtype != "bool" and is_float(x.dtype) == floats

    inner = () if isinstance(e, Read | Lookup) else children(e)  # indices count nothing
    parts = [_count(x, floats, terms, number) for x in inner]
    match e:
        case Binary() | Compare():
            return sum(parts) + (mine(e.a) or mine(e.b))
        case Select():
            return parts[0] + max(parts[1:])
        case Reduce():
            return math.prod(terms.get(a, number(a.extent)) for a in e.axes) * (1 + parts[0])
    return sum(parts)
