"""Products of few rows with a matrix that lies the other way: sums in lanes along its rows.

A query and the keys that it is held against::

    S[i, d] = sum over e: Q[i, e] * K[d, e]         few i, many d

Vectors along d gather numbers that lie a row apart, as does a transposed copy of K, which so few
rows do not pay for. Where neighbours along e are separate sums, K is read as it lies::

    S_rf[i, d, ei] = sum over er: Q[i, er * L + ei] * K[d, er * L + ei]
    S[i, d]        = sum over ei: S_rf[i, d, ei]
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tilework.index.symbols import range_of
from tilework.space.rfactor import split_reduction
from tilework.space.state import LastVariants, State
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis
from tilework.te.expr import Axis, Read, Reduce, reads, replace_axes, walk
from tilework.te.tensor import Compute

_LESS = 2
"""How many times fewer numbers are to be gathered in the end, lanes of every row, than without."""


class _Along(NamedTuple):
    """A read of neighbours along a reduce axis.

    Attributes:
        axis: the reduce axis.
        rows: how often each element is read, at the fewest.
        moves: stages that move the elements before.
    """

    axis: Axis
    rows: int
    moves: tuple[Compute, ...]


def sum_along_rows(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: a product whose one operand is read by few rows, summed along that operand's rows.

    Stages that transpose the operand are inlined.
    """
    if op in state.prepared or "layout_free" in op.attrs or "const_axes" in op.attrs:
        return []
    if not (isinstance(op.body, Reduce) and facts.needs_multi_level_tiling(op)):
        return []
    along = _along(facts, op)
    lanes = state.target.lanes()
    if along is None or lanes < 2 or along.axis.open or op.body.limits:
        return []
    points = along.axis.points
    if points % lanes or _LESS * along.rows * lanes > points:
        return []
    for move in along.moves:
        state = state.inline(move)
    return LastVariants([split_reduction(state, op, None, (along.axis, lanes))])


def _along(facts: AccessAnalysis, op: Compute) -> _Along | None:
    """The read of an operand that lies along a reduce axis, where vectors of results do not."""
    assert isinstance(op.body, Reduce)
    last = next((a for a in reversed(op.axes) if a.extent != 1), None)
    for own in reads(op.body.source):
        axes = {n for index in own.indices for n in walk(index) if isinstance(n, Axis)}
        rows = math.prod(range_of(a.extent)[0] for a in op.axes if a not in axes)
        if last not in axes:
            continue
        read, moves = _moved(facts, own)
        form = linear(read.indices[-1]) if read.indices else None
        if form is None:
            continue
        for axis in op.reduce_axes:
            if axis.extent != 1 and form.step(axis) == 1:
                return _Along(axis, rows, moves)
    return None


def _moved(facts: AccessAnalysis, read: Read) -> tuple[Read, tuple[Compute, ...]]:
    """What a read takes in the end, where stages before it move elements for it alone."""
    moves: list[Compute] = []
    while True:
        op = read.tensor.op
        if not isinstance(op, Compute) or not isinstance(op.body, Read):
            return read, tuple(moves)
        if facts.is_output(op) or len(facts.readers[op]) != 1:
            return read, tuple(moves)
        moves.append(op)
        at = dict(zip(op.axes, read.indices, strict=True))
        inner = replace_axes(op.body, at)
        assert isinstance(inner, Read)
        read = inner
