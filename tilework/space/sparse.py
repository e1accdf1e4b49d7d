"""Sketch rules of sparse products, offered through the interface for rules of a user's own.

A vector of outputs, one lane for each row of a block, suits blocks of as many rows as a register
has lanes. Blocks of fewer rows leave lanes idle; then the points of the batch and of the map are
the better vector, if there are enough of them (`sparse_across`).
"""

from __future__ import annotations

import math

from tilework.dtypes import is_float
from tilework.space.plan import Root, StagePlan
from tilework.space.rules import consumers, ragged_reduction
from tilework.space.state import Branch, Rules, State
from tilework.te import expr as x
from tilework.te.analysis import AccessAnalysis
from tilework.te.rewrite import replaced
from tilework.te.tensor import Compute, Tensor, make_compute

_LEAST_POINTS = 8


def sparse_product(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A product with stored blocks, tiled around the loop over the blocks of a block row."""
    return ragged_reduction(facts, state, op) if "bsr" in op.attrs else []


def sparse_across(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: the data turned, so that neighbours in a vector are points with equal channels.

    Before::

        y[i, j] = sum over e, c of data[.., c, j % R] * x[i, column(e, c)]

    After, with m for all points i in order::

        xt[k, m] = x[m, k]
        yt[j, m] = sum over e, c of data[.., c, j % R] * xt[column(e, c), m]
        y[i, j] = yt[j, m]         inlined into what reads it
    """
    data = op.attrs.get("bsr", {}).get("data")
    reads = [r for r in x.reads(op.body) if is_float(r.dtype)]
    blocks = [r for r in reads if r.tensor.name == data]
    others = [r for r in reads if r.tensor.name != data]
    if len(blocks) != 1 or len(others) != 1 or len(op.axes) < 2:
        return []
    if any(a.open for a in op.axes[:-1]):  # the new axis has as many points as they have together
        return []
    (read,), rows = others, blocks[0].tensor.shape[-1]
    points = math.prod(a.points for a in op.axes[:-1])
    last = any(n is op.axes[-1] for r in x.reads(read.indices[-1]) for n in x.walk(r))
    if not last or rows >= state.target.lanes() or points < _LEAST_POINTS:
        return []
    copy, product, turned = _turned(op, read, points)
    dag, new = replaced(state.facts.dag, {op: turned})
    moved = state.moved(AccessAnalysis(dag), new)
    moved = moved.step(
        f"turn {op.name}: vectors of {points} points",
        {
            product: StagePlan(Root(), moved.tiling.ragged),
            copy: StagePlan(Root(), moved.tiling.elementwise),
        },
        prepared=moved.prepared | {turned},
    )
    alone = len(consumers(moved.facts, moved, turned)) == 1
    inline = alone and not moved.facts.is_output(turned)
    return Branch([moved.inline(turned) if inline else moved.root(turned)])


def _turned(op: Compute, read: x.Read, points: int) -> tuple[Compute, Compute, Compute]:
    """The stages of `sparse_across`: the last of them has the op's name and axes."""
    assert isinstance(op.body, x.Reduce)
    *outer, row = op.axes
    k = x.Axis("int32", "k", read.tensor.shape[-1], "spatial")
    m = x.Axis("int32", "m", points, "spatial")
    position: x.Expr = m
    at: dict[x.Axis, x.Expr] = {}
    for axis in reversed(outer):  # the point m as its place along each axis
        at[axis] = position if axis is outer[0] else x.binary("%", position, axis.extent)
        position = x.binary("//", position, axis.extent)
    where = (*(x.replace_axes(i, at) for i in read.indices[:-1]), k)
    copy = make_compute(f"{op.name}_x", (k, m), x.Read(read.dtype, read.tensor, where), {})

    m = x.Axis("int32", "m", points, "spatial")
    fresh = [x.Axis("int32", a.name, a.extent, a.kind) for a in (row, *op.reduce_axes)]
    same = dict(zip((row, *op.reduce_axes), fresh, strict=True))
    names: dict[x.Axis, x.Expr] = dict(same)
    turned = x.Read(read.dtype, Tensor(copy), (read.indices[-1], m))
    source = x.substitute(op.body.source, lambda n: turned if n is read else None)
    limits = tuple((same[a], x.replace_axes(e, names)) for a, e in op.body.limits)
    body = x.Reduce(
        op.dtype, op.body.kind, x.replace_axes(source, names), tuple(fresh[1:]), limits
    )
    product = make_compute(
        f"{op.name}_t", (fresh[0], m), body, {"terms": op.attrs.get("terms", {})}
    )
    flat: x.Expr = outer[0]
    for axis in outer[1:]:
        flat = x.binary("+", x.binary("*", flat, axis.extent), axis)
    result = x.Read(op.dtype, Tensor(product), (row, flat))
    return copy, product, make_compute(op.name, op.axes, result, {})


SPARSE_RULES: Rules = (sparse_across, sparse_product)
"""What the tasks of sparse operators are searched with: `SearchTask(.., rules=SPARSE_RULES)`."""
