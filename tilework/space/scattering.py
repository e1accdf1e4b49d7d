"""Reductions in which every term means one point of an axis: each goes where it belongs.

Declared, every output asks all terms which of them mean it::

    out[i, j] = sum over e: select(rows[e] == i, x[e, j], 0)

That is a product of extents. Turned round again, it is one store a term::

    out[i, j] = 0
    for e:  i = rows[e];  out[i, j] += x[e, j]

The axis that terms mean has no tiles, and threads share the other axes alone. Terms come in their
order, so that sums are those of one loop over all of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilework.dtypes import NARROW_FLOATS
from tilework.index.symbols import same
from tilework.space.blocks import Block
from tilework.space.capabilities import Scatter
from tilework.space.levels import Role
from tilework.space.state import LastVariants, State
from tilework.te import expr as x
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute

_PLACES = ("int32", "int64")
"""Types of numbers that positions are made of, as they are computed outside of vectors."""


def scatter_terms(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: a reduction in which every term means one point of an axis, term by term."""
    if op in state.prepared or "const_axes" in op.attrs or _scatter(op.body) is None:
        return []
    levels = state.tiling.scatter
    return LastVariants([state.tile(op, levels, f"scatter {op.name} {levels}")])


def scattering_block(block: Block) -> Block:
    """The block with its `Scatter`, where it is tiled as one."""
    scattered = [level.role for level in block.levels.items if level.kind == "R"] == [Role.serial]
    return replace(block, scatter=_scatter(block.body)) if scattered else block


def _scatter(body: x.Expr) -> Scatter | None:
    if not isinstance(body, x.Reduce) or body.limits or not isinstance(body.source, x.Select):
        return None
    source = body.source
    other = source.b
    if body.dtype in (*NARROW_FLOATS, "bool") or not isinstance(other, x.Const):
        return None
    meant = _meant(source.cond)
    if other.value != body.identity or meant is None:
        return None
    axis, place = meant
    if axis.kind != "spatial" or axis in (*x.walk(place), *x.walk(source.a)):
        return None
    if not all(_computed_alone(n) for n in x.walk(place)):
        return None
    used = frozenset(n for n in x.walk(place) if isinstance(n, x.Axis) and n.kind == "spatial")
    return Scatter(axis, place, source.a, used | {axis})


def _meant(cond: x.Expr) -> tuple[x.Axis, x.Expr] | None:
    """The axis and its point that satisfy a condition, which no other point does.

    That is ``place == axis``, or ``place == axis or place + extent == axis`` of a place that
    counts from the end where it is negative. Points outside of the axis satisfy none.
    """
    if isinstance(cond, x.Compare) and cond.op == "==":
        for axis, place in ((cond.a, cond.b), (cond.b, cond.a)):
            inner = axis.a if isinstance(axis, x.Cast) else axis
            if isinstance(inner, x.Axis) and not isinstance(place, x.Axis):
                return inner, place
    if isinstance(cond, x.Logic) and cond.op == "or":
        first, second = _meant(cond.a), _meant(cond.b)
        if first is None or second is None or first[0] is not second[0]:
            return None
        axis, place = first
        late = second[1]
        if isinstance(late, x.Binary) and late.op == "+" and late.a is place:
            extent = late.b
            if isinstance(extent, x.Const) and same(extent.whole, axis.extent):
                below = x.compare("<", place, x.Const(place.dtype, 0))
                return axis, x.Select(place.dtype, below, late, place)
    return None


def _computed_alone(node: x.Expr) -> bool:
    """Whether a node of a position is an integer that one core computes outside of vectors."""
    if isinstance(node, x.Compare | x.Cast):
        return node.a.dtype in (*_PLACES, "bool") and node.dtype in (*_PLACES, "bool")
    whole = node.dtype in (*_PLACES, "bool")
    return whole and not isinstance(node, x.Call | x.Lookup | x.IfThenElse)
