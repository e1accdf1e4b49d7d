"""Reductions with too little spatial parallelism: partial results first, then their reduction.

Before::

    C[i] = sum over k: A[i, k]                                     i is short, k is long

After ``split_reduction`` (k = (ko * KR + kr) * L + ki)::

    C_rf[ko, i, ki] = sum over kr: A[i, (ko * KR + kr) * L + ki]   ko parallel, ki vectorised
    C[i]            = sum over ko, ki: C_rf[ko, i, ki]

The first stage has the spatial axes that were missing; the second one is short. Where a run
decides how many terms there are, whole groups of neighbours are summed first, and the second stage
adds what is left behind them, of K = KR * L + rest::

    C[i] = sum over ki: C_rf[i, ki] + (ki < rest ? A[i, KR * L + ki] : 0)

How many
neighbours ``L`` and how many parts ``ko`` there are is a choice among sketches: `add_rfactor`
offers what is right most often, `other_cuts` further ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tilework.index.symbols import is_static
from tilework.space.plan import Root, StagePlan
from tilework.space.siblings import PARTIAL
from tilework.space.state import Branch, State, Variants, Widths
from tilework.space.tables import divisors
from tilework.target import Target
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis
from tilework.te.expr import (
    Axis,
    Const,
    Expr,
    IfThenElse,
    Read,
    Reduce,
    binary,
    compare,
    reads,
    replace_axes,
)
from tilework.te.rewrite import replaced
from tilework.te.tensor import Compute, Tensor, make_compute

_MIN_REDUCE = 64
_PARALLEL_POINTS = 1 << 15
_VECTORS = 4
_SPATIAL_PER_CORE = 16
_OTHER_VECTORS = (1, 2, 8)
"""Registers of neighbours that further sketches hold: few leave more parts or points in flight,
many hide the latency of additions."""
_OTHER_PARTS = (2, 4, 16)
"""Parts a core in further sketches: threads that start late, or are slower, take fewer of them."""

_COMBINE = {"sum": "+", "prod": "*", "max": "max", "min": "min"}
Cut = tuple[Axis, int]
"""A reduce axis and how many parts (outer cut) or neighbours (inner cut) become spatial."""


def add_rfactor(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Vectorise a reduction along a contiguous reduce axis; run parts of a long one in parallel.

    Offered beside the plain forms where the vectorised axis would otherwise be read with gaps, or
    where the spatial axes alone cannot occupy the cores.
    """
    if not _is_long(facts, state, op):
        return []
    inner = inner_cut(op, state.target)
    states = [] if inner is None else [split_reduction(state, op, None, inner)]
    if _in_parts(state, op):
        outer = outer_cut(op, state.target.num_cores, inner)
        states += [] if outer is None else [split_reduction(state, op, outer, inner)]
    return Branch(states)


def other_cuts(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: the forms of `add_rfactor` with other numbers of neighbours and of parts.

    Where several reductions follow one another (softmax, norms), all of them are cut alike: the
    last one says how.
    """
    if not _is_long(facts, state, op):
        return []
    if state.alike is not None:
        alike = _cuts_like(state, op, state.alike)
        return [] if alike is None else [split_reduction(state, op, *alike)]
    decided = (o for o in state.plans if o.reduce_axes)
    if state.cuts or any(_is_long(facts, state, o) for o in decided):
        return []
    states = []
    for widths in _other_widths(state, op):
        cuts = _cuts_like(state, op, widths)
        if cuts is not None:
            states.append(split_reduction(replace(state, alike=widths), op, *cuts))
    return Variants(states)


def _is_long(facts: AccessAnalysis, state: State, op: Compute) -> bool:
    """Whether a reduction has many terms, and few points or operands that are used once."""
    if not op.reduce_axes or op in state.prepared or "const_axes" in op.attrs:
        return False
    if len(op.reduce_axes) > 1 and not is_static(a.extent for a in op.reduce_axes):
        return False
    points = math.prod(a.most for a in op.reduce_axes)
    spatial = math.prod(a.most for a in op.axes)
    tiled = facts.needs_multi_level_tiling(op)
    few = spatial <= _SPATIAL_PER_CORE * state.target.num_cores
    return points >= _MIN_REDUCE and not (tiled and (spatial > points or not few))


def _in_parts(state: State, op: Compute) -> bool:
    """Whether a long reduction has work for several cores, and too few points for them."""
    if any(a.open for a in op.reduce_axes):
        return False  # parts have to be equal
    spatial = math.prod(a.most for a in op.axes)
    points = math.prod(a.points for a in op.reduce_axes)
    few = spatial <= _SPATIAL_PER_CORE * state.target.num_cores
    return few and spatial * points >= _PARALLEL_POINTS


def _other_widths(state: State, op: Compute) -> list[Widths]:
    """Cuts that `add_rfactor` does not offer, those that differ in one number first."""
    cores, lanes = state.target.num_cores, state.target.lanes()
    inner = inner_cut(op, state.target)
    usual = 1 if inner is None else inner[1]
    neighbours = [] if inner is None else _near(
        _neighbours(op, lanes, max(_OTHER_VECTORS))[1], [lanes * n for n in _OTHER_VECTORS], usual
    )  # fmt: skip
    widths = [Widths(neighbours=n) for n in neighbours]
    outer = outer_cut(op, cores, inner) if _in_parts(state, op) else None
    if outer is not None:
        _, possible = _parts(op, cores, inner) or (None, ())
        parts = _near(possible, [cores * n for n in _OTHER_PARTS], outer[1])
        widths += [Widths(usual, n) for n in parts]
        widths += [Widths(n, outer[1]) for n in neighbours]
    return widths


def _near(possible: Sequence[int], wanted: Sequence[int], known: int) -> list[int]:
    """The nearest possible number to each one wanted, each once, without the one that is known."""
    out = []
    for number in wanted:
        near = min(possible, key=lambda n: abs(math.log2(n / number)), default=known)
        if near != known and near not in out and 0.5 < near / number < 2:
            out.append(near)
    return out


def _cuts_like(state: State, op: Compute, widths: Widths) -> tuple[Cut | None, Cut | None] | None:
    """The outer and the inner cut of a reduction that come nearest to some widths."""
    inner = outer = None
    if widths.neighbours > 1:
        axis, possible = _neighbours(op, state.target.lanes(), max(_OTHER_VECTORS))
        if axis is None or not possible:
            return None
        inner = axis, min(possible, key=lambda n: abs(math.log2(n / widths.neighbours)))
    if widths.parts > 1 and _in_parts(state, op):
        parts = _parts(op, state.target.num_cores, inner)
        if parts is not None:
            axis, counts = parts
            outer = axis, min(counts, key=lambda n: abs(math.log2(n / widths.parts)))
    return None if inner is None and outer is None else (outer, inner)


def contiguous_axis(op: Compute) -> Axis | None:
    """The reduce axis whose neighbours are neighbours in memory, unless a spatial axis's are."""
    assert isinstance(op.body, Reduce)
    for read in reads(op.body.source):
        form = linear(read.indices[-1]) if read.indices else None
        if form is None:
            continue
        if op.axes and op.axes[-1].extent != 1 and form.step(op.axes[-1]) == 1:
            return None
        for axis in op.reduce_axes:
            if form.step(axis) == 1 and axis.extent != 1:
                return axis
    return None


def inner_cut(op: Compute, target: Target) -> Cut | None:
    """Neighbours along the contiguous reduce axis to hold as separate sums: a few registers."""
    axis, possible = _neighbours(op, target.lanes(), _VECTORS)
    return (axis, max(possible)) if axis is not None and possible else None


def _neighbours(op: Compute, lanes: int, vectors: int) -> tuple[Axis | None, list[int]]:
    """The contiguous reduce axis, and how many neighbours along it can be held: whole registers.

    Where no whole registers divide the axis: what divides it. Of an axis whose extent a run
    decides, few registers: the shorter is the rest.
    """
    axis = contiguous_axis(op)
    if axis is None:
        return None, []
    if axis.open:
        return axis, [lanes * n for n in (1, 2) if lanes > 1 and lanes * n <= axis.most]
    fit = [d for d in divisors(axis.points) if 4 <= d <= vectors * lanes]
    return axis, [d for d in fit if d % lanes == 0] or fit


def outer_cut(op: Compute, cores: int, inner: Cut | None) -> Cut | None:
    """Parts of the first reduce axis that can be cut evenly, one or a few for each core."""
    parts = _parts(op, cores, inner)
    return None if parts is None else (parts[0], parts[1][0])


def _parts(op: Compute, cores: int, inner: Cut | None) -> tuple[Axis, list[int]] | None:
    """The first reduce axis that can be cut evenly, and into how many parts."""
    for axis in op.reduce_axes if cores > 1 else ():
        left = axis.points // inner[1] if inner is not None and inner[0] is axis else axis.points
        parts = [d for d in divisors(left) if cores <= d <= _SPATIAL_PER_CORE * cores]
        if parts:
            return axis, parts
    return None


def _with_rest(body: Reduce, value: Expr, cut: Cut, neighbour: Axis) -> Expr:
    """A partial result and the term as far behind the whole groups, where there is one."""
    axis, width = cut
    whole = axis.extent // width * width
    term = replace_axes(body.source, {axis: binary("+", neighbour, whole)})
    there = compare("<", neighbour, axis.extent - whole)
    neutral = Const(body.dtype, body.identity)
    return binary(_COMBINE[body.kind], value, IfThenElse(body.dtype, there, term, neutral))


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
        op.name + PARTIAL,
        (*first, *op.axes, *last),
        Reduce(op.dtype, op.body.kind, source, tuple(rest)),
        {},
    )
    sums = [Axis("int32", f"{a.name}s", a.extent, "reduce") for a in (*first, *last)]
    n = len(first)
    at = (*sums[:n], *op.axes, *sums[n:])
    attrs = {k: v for k, v in op.attrs.items() if k != "layout_free"}
    value: Expr = Read(op.dtype, Tensor(partial_op), at)
    if inner is not None and inner[0].open:
        value = _with_rest(op.body, value, inner, sums[-1])
    body = Reduce(op.dtype, op.body.kind, value, tuple(sums))
    final = make_compute(op.name, op.axes, body, attrs)
    dag, new = replaced(state.facts.dag, {op: final})
    cuts = [f"{a.name} {what} {n}" for what, c in (("in", outer), ("by", inner)) if c
            for a, n in [c]]  # fmt: skip
    moved = state.moved(AccessAnalysis(dag), new)
    return moved.step(
        f"rfactor {op.name}: {', '.join(cuts)}",
        {partial_op: StagePlan(Root(), moved.tiling.reduction)},
        prepared=moved.prepared | {final},
        cuts={**moved.cuts, op.name: ", ".join(cuts)},
    )
