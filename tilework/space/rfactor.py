"""Reductions with too little spatial parallelism: partial results first, then their reduction.

Before::

    C[i] = sum over k: A[i, k]                                     i is short, k is long

After ``split_reduction`` (k = (ko * KR + kr) * L + ki)::

    C_rf[ko, i, ki] = sum over kr: A[i, (ko * KR + kr) * L + ki]   ko parallel, ki vectorised
    C[i]            = sum over ko, ki: C_rf[ko, i, ki]

The first stage has the spatial axes that were missing; the second one is short.
"""

from __future__ import annotations

import math

from tilework.space.plan import Root, StagePlan
from tilework.space.state import Branch, State
from tilework.space.tables import divisors
from tilework.target import Target
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis
from tilework.te.expr import Axis, Expr, Read, Reduce, binary, reads, replace_axes
from tilework.te.rewrite import replaced
from tilework.te.tensor import Compute, Tensor, make_compute

_MIN_REDUCE = 64
_PARALLEL_POINTS = 1 << 15
_VECTORS = 4
_SPATIAL_PER_CORE = 16

Cut = tuple[Axis, int]
"""A reduce axis and how many parts (outer cut) or neighbours (inner cut) become spatial."""


def add_rfactor(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Vectorise a reduction along a contiguous reduce axis; run parts of a long one in parallel.

    Offered beside the plain forms where the vectorised axis would otherwise be read with gaps, or
    where the spatial axes alone cannot occupy the cores.
    """
    if not op.reduce_axes or op in state.prepared or "const_axes" in op.attrs:
        return []
    points = math.prod(a.extent for a in op.reduce_axes)
    spatial = math.prod(a.extent for a in op.axes)
    tiled = facts.needs_multi_level_tiling(op)
    few = spatial <= _SPATIAL_PER_CORE * state.target.num_cores
    if points < _MIN_REDUCE or (tiled and (spatial > points or not few)):
        return []
    inner = inner_cut(op, state.target)
    found = [] if inner is None else [split_reduction(state, op, None, inner)]
    if few and spatial * points >= _PARALLEL_POINTS:
        outer = outer_cut(op, state.target.num_cores, inner)
        found += [] if outer is None else [split_reduction(state, op, outer, inner)]
    return Branch(found)


def contiguous_axis(op: Compute) -> Axis | None:
    """The reduce axis whose neighbours are neighbours in memory, unless a spatial axis's are."""
    assert isinstance(op.body, Reduce)
    for read in reads(op.body.source):
        form = linear(read.indices[-1]) if read.indices else None
        if form is None:
            continue
        if op.axes and op.axes[-1].extent > 1 and form.coefficients.get(op.axes[-1]) == 1:
            return None
        for axis in op.reduce_axes:
            if form.coefficients.get(axis) == 1 and axis.extent > 1:
                return axis
    return None


def inner_cut(op: Compute, target: Target) -> Cut | None:
    """Neighbours along the contiguous reduce axis to hold as separate sums: a few registers."""
    axis = contiguous_axis(op)
    if axis is None:
        return None
    lanes = target.lanes()
    fit = [d for d in divisors(axis.extent) if 4 <= d <= _VECTORS * lanes]
    whole = [d for d in fit if d % lanes == 0]
    best = max(whole or fit, default=0)
    return (axis, best) if best else None


def outer_cut(op: Compute, cores: int, inner: Cut | None) -> Cut | None:
    """Parts of the first reduce axis that can be cut evenly, one or a few for each core."""
    for axis in op.reduce_axes if cores > 1 else ():
        left = axis.extent // inner[1] if inner is not None and inner[0] is axis else axis.extent
        parts = [d for d in divisors(left) if cores <= d <= _SPATIAL_PER_CORE * cores]
        if parts:
            return axis, parts[0]
    return None


def split_reduction(state: State, op: Compute, outer: Cut | None, inner: Cut | None) -> State:
    """The state on a DAG in which ``op`` sums the partial results of a new stage.

    The new stage is a nest of its own; ``op`` itself is still to be visited.
    """
    assert isinstance(op.body, Reduce)
    mapping: dict[Axis, Expr] = {}
    first: list[Axis] = []
    last: list[Axis] = []
    rest: list[Axis] = []
    for axis in op.reduce_axes:
        parts = outer[1] if outer is not None and outer[0] is axis else 1
        width = inner[1] if inner is not None and inner[0] is axis else 1
        left = axis.extent // (parts * width)
        middle = Axis("int32", f"{axis.name}r", left, "reduce")
        rest.append(middle)
        index: Expr = middle
        if parts > 1:
            part = Axis("int32", f"{axis.name}o", parts, "spatial")
            first.append(part)
            index = binary("+", binary("*", part, left), index)
        if width > 1:
            neighbour = Axis("int32", f"{axis.name}i", width, "spatial")
            last.append(neighbour)
            index = binary("+", binary("*", index, width), neighbour)
        mapping[axis] = index
    source = replace_axes(op.body.source, mapping)
    partial_op = make_compute(
        f"{op.name}_rf",
        (*first, *op.axes, *last),
        Reduce(op.dtype, op.body.kind, source, tuple(rest)),
        {},
    )
    sums = [Axis("int32", f"{a.name}s", a.extent, "reduce") for a in (*first, *last)]
    n = len(first)
    at = (*sums[:n], *op.axes, *sums[n:])
    attrs = {k: v for k, v in op.attrs.items() if k != "layout_free"}
    body = Reduce(op.dtype, op.body.kind, Read(op.dtype, Tensor(partial_op), at), tuple(sums))
    final = make_compute(op.name, op.axes, body, attrs)
    dag, new = replaced(state.facts.dag, {op: final})
    cuts = [f"{a.name} {what} {n}" for what, c in (("in", outer), ("by", inner)) if c
            for a, n in [c]]  # fmt: skip
    moved = state.moved(AccessAnalysis(dag), new)
    return moved.step(
        f"rfactor {op.name}: {', '.join(cuts)}",
        {partial_op: StagePlan(Root(), moved.tiling.reduction)},
        prepared=moved.prepared | {final},
    )
