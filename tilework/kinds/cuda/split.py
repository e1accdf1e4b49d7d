"""Long reductions of few points in parts: partial sums in a first kernel, their sum in a second.

A GPU has work for thousands of threads at once; a product of a small map with many channels does
not give it that many tiles. The second kernel adds the parts in order, so that results are the
same in every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilework.kinds.cuda.tiling import ACROSS, TILED
from tilework.space.plan import Root, StagePlan
from tilework.space.rfactor import split_reduction
from tilework.space.state import State
from tilework.space.tables import divisors
from tilework.te.expr import Axis, reads
from tilework.te.tensor import Compute

_TILE = 32 * 32
"""Points that a block computes at least where it pays to tile."""
_WAVES = 2
"""Blocks for each multiprocessor with which a split is worth trying."""
_LEAST_TERMS = 256
"""Of a reduction that is split."""
_PART_TERMS = 32
"""Of each part, at least."""
_MOST_PARTS = 64
_LONG = 1 << 15
"""Terms of a plain reduction of few points that one block should not do alone."""


def split_k(state: State, op: Compute) -> list[State]:
    """A tiled product in a few numbers of parts, with which its blocks fill the device.

    Products on a rewritten DAG (Winograd) take the middle one alone.
    """
    terms = math.prod(a.typical for a in op.reduce_axes)
    blocks = math.prod(a.typical for a in op.axes) / _TILE
    wanted = _WAVES * _multiprocessors(state.target)
    if blocks > wanted or terms < _LEAST_TERMS:
        return []
    axis = max(op.reduce_axes, key=lambda a: a.typical)
    most = min(_MOST_PARTS, terms // _PART_TERMS)
    shares = (1.0,) if state.form else (0.5, 1.0, 2.0)
    numbers = _numbers(axis, [wanted / blocks * s for s in shares], most)
    return [_split(state, op, axis, parts, TILED) for parts in numbers]


def split_sum(state: State, op: Compute) -> list[State]:
    """A reduction of very many terms to few points, each part a block's."""
    terms = math.prod(a.typical for a in op.reduce_axes)
    points = math.prod(a.typical for a in op.axes)
    sms = _multiprocessors(state.target)
    if terms < _LONG or points > sms:
        return []
    axis = max(op.reduce_axes, key=lambda a: a.typical)
    most = max(terms // 1024, 1)
    return [
        _split(state, op, axis, parts, ACROSS)
        for parts in _numbers(axis, [_WAVES * sms / points], most)
    ]


def _split(state: State, op: Compute, axis: Axis, parts: int, levels: Any) -> State:
    """Partial sums in a nest with these levels; their sum is still to be visited."""
    new, partial = in_parts(state, op, axis, parts)
    return replace(new, plans={**new.plans, partial: StagePlan(Root(), levels, sums="tile")})


def in_parts(state: State, op: Compute, axis: Axis, parts: int) -> tuple[State, Compute]:
    """The state with a reduction in parts whose sum is still to be visited; and partial sums."""
    new = split_reduction(state, op, (axis, parts), None)
    final = new.undecided()
    assert final is not None
    (partial,) = (r.tensor.op for r in reads(final.body))
    assert isinstance(partial, Compute)
    return new, partial


def _numbers(axis: Axis, wanted: list[float], most: int) -> Iterator[int]:
    """Numbers of equal parts of an axis, the nearest to those wanted."""
    fit = [d for d in divisors(axis.points) if 2 <= d <= most]
    nearest = (min(fit, key=lambda d: abs(math.log(d / w))) for w in wanted if fit)
    return iter(dict.fromkeys(nearest))


def _multiprocessors(target: Any) -> int:
    return int(target.device.sms)
