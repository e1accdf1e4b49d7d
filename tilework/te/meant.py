"""Reductions in which every term means one point of an axis, and counts there alone.

    out[i, j] = sum over e: select(i == rows[e], x[e, j], 0)

Such a sum is declared as a product of extents, and is one store a term.
"""

from __future__ import annotations

from typing import NamedTuple

from tilework.te import expr as x


class Meant(NamedTuple):
    """What each term of a reduction means.

    Attributes:
        axis: the spatial axis.
        place: the point of it; outside of the axis it means none.
        value: the term.
    """

    axis: x.Axis
    place: x.Expr
    value: x.Expr


def meant(body: x.Expr) -> Meant | None:
    """What the terms of a body mean; None where each may mean several points.

    The body is a reduction of ``select(axis == place, value, identity)``, written in this order;
    neither the place nor the value depends on the axis.
    """
    if not isinstance(body, x.Reduce) or not isinstance(body.source, x.Select):
        return None
    cond, value, other = body.source.cond, body.source.a, body.source.b
    if not isinstance(cond, x.Compare) or cond.op != "==":
        return None
    axis = cond.a.a if isinstance(cond.a, x.Cast) else cond.a
    if not isinstance(axis, x.Axis) or axis.kind != "spatial" or body.limits:
        return None
    if not isinstance(other, x.Const) or other.value != body.identity:
        return None
    return None if axis in (*x.walk(cond.b), *x.walk(value)) else Meant(axis, cond.b, value)
