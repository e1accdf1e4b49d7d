"""Which share of a network's run each of its calls takes, before any schedule is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilework.index.extents import nbytes
from tilework.index.symbols import Point, Symbol, Symbolic, value_at
from tilework.te.dag import ComputeDAG
from tilework.te.points import typical_points
from tilework.te.touched import touched_bytes

if TYPE_CHECKING:
    from tilework.compiler.alike import Alike
    from tilework.graph.plan import Call

_BYTE = 8
"""Operations that a byte counts as: those of a core in the time that it takes to read one from
memory that is not far away."""


def shares(calls: Sequence[Call], symbols: Sequence[Symbol], alike: Alike) -> dict[str, float]:
    """Of each workload, which part of the network's work it is at most, at any typical point.

    Of those that are alike the first stands for all.

    Work is operations and bytes: a rough estimate, of use where a task is next to nothing.

    Args:
        calls: of a plan.
        symbols: of the network.
        alike: says which are.
    """
    points = typical_points(symbols)
    works: dict[str, list[float]] = {}
    each: dict[str, list[float]] = {}
    for call in calls:
        key = call.dag.workload_key
        if key not in each:
            each[key] = [_work(call.dag, at) for at in points]
        first = alike.first(call.dag)[0].workload_key
        own = works.setdefault(first, [0.0] * len(points))
        for i, at in enumerate(points):
            own[i] += each[key][i] * value_at(call.trips, at)
    totals = [max(sum(column), 1.0) for column in zip(*works.values(), strict=True)]
    return {
        key: max((n / total for n, total in zip(own, totals, strict=True)), default=1.0)
        for key, own in works.items()
    }


def _work(dag: ComputeDAG, at: Point) -> float:
    """Operations and bytes of one call at a point."""
    by_name = {symbol.name: n for symbol, n in at.items()}
    there = {s: by_name.get(s.name, s.high) for s in dag.symbols}
    flops = dag.run_flops
    work = float(value_at(flops, there)) if isinstance(flops, Symbolic) else float(flops)
    touched = (touched_bytes(dag, t, nbytes(t.shape, t.dtype)) for t in dag.tensors)
    return work + _BYTE * sum(value_at(n, there) for n in touched)
