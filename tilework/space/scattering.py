"""Reductions in which every term means one point of an axis: each goes where it belongs.

Declared, every output asks all terms which of them mean it (its axis stands on the left)::

    out[i, j] = sum over e: select(i == rows[e], x[e, j], 0)

That is a product of extents. Turned round again, it is one store a term::

    out[i, j] = 0
    for e:  i = rows[e];  out[i, j] += x[e, j]

The axis that terms mean has no tiles, and threads share the other axes alone. Terms come in their
order, so that sums are those of one loop over all of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilework.dtypes import NARROW_FLOATS
from tilework.space.blocks import Block
from tilework.space.capabilities import Scatter
from tilework.space.levels import Role
from tilework.space.state import State
from tilework.te import expr as x
from tilework.te.analysis import AccessAnalysis
from tilework.te.meant import meant
from tilework.te.tensor import Compute

_PLACES = ("int32", "int64")
"""Types of numbers that positions are made of, as they are computed outside of vectors."""


def scatter_terms(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A reduction in which every term means one point of an axis, term by term."""
    levels = state.tiling.scatter
    if levels is None or _scatter(op.body) is None:
        return []
    return [state.tile(op, levels, f"scatter {op.name} {levels}")]


def scattering_block(block: Block) -> Block:
    """The block with its `Scatter`, where it is tiled as one."""
    scattered = [level.role for level in block.levels.items if level.kind == "R"] == [Role.serial]
    return replace(block, scatter=_scatter(block.body)) if scattered else block


def _scatter(body: x.Expr) -> Scatter | None:
    each = meant(body)
    if each is None or body.dtype in (*NARROW_FLOATS, "bool"):
        return None
    nodes = tuple(x.walk(each.place))
    if not all(computed_alone(n) for n in nodes):
        return None
    decide = frozenset(n for n in nodes if isinstance(n, x.Axis) and n.kind == "spatial")
    return Scatter(*each, decide | {each.axis})


def computed_alone(node: x.Expr) -> bool:
    """Whether a node of a position is an integer that one core computes outside of vectors."""
    if isinstance(node, x.Compare | x.Cast):
        return node.a.dtype in (*_PLACES, "bool") and node.dtype in (*_PLACES, "bool")
    whole = node.dtype in (*_PLACES, "bool")
    return whole and not isinstance(node, x.Call | x.Lookup | x.IfThenElse)
