"""Which rows no measurement can give: one rule for stores, packages and whatever asks for a best.

Whoever can write a store decides with it what is compiled. A row that says of itself that it is
faster than any machine, or of tomorrow, would be the best for ever, since nothing measured later
can beat it. Such rows are told and never chosen.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from tilework.errors import TileworkError
from tilework.record import Record
from tilework.target.base import MOST_OPERATIONS

SHORTEST_S = 1e-9
LONGEST_S = 86_400.0
"""Bounds of a call's latency."""

AHEAD = timedelta(days=1)
"""How far clocks of two machines may lie apart."""

OTHER_COUNT = 2.0
"""By which factor the operations of a row may differ from those of its workload: versions of
Tilework may count some of them in another way."""

FASTER = "faster than any machine"
FUTURE = "from the future"
NO_LATENCY = "with a latency that no measurement gives"
NO_COUNT = "counting operations that cannot be"
OTHER = "counting other operations than their workload has"

COLUMNS = ("latency_s", "flops", "target", "workload", "created_at")
"""What `faults` looks at."""


def doubt(record: Record, flops: float | None = None) -> str:
    """Why a record cannot be what it says; empty if it can.

    Args:
        flops: operations of the record's workload, if they are known.
    """
    latency = record.latency_s
    if not (math.isfinite(record.flops) and record.flops >= 0):
        return NO_COUNT
    if flops is not None and _differs(record.flops, flops):
        return OTHER
    if record.created_at > datetime.now(UTC) + AHEAD:
        return FUTURE
    if latency is None:
        return ""
    if not SHORTEST_S <= latency <= LONGEST_S:
        return NO_LATENCY
    return FASTER if record.flops / latency > _most(record.target, record.workload) else ""


def faults(
    rows: pa.Table, flops: Mapping[str, float] | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Why rows cannot be what they say, and of which of them it is true: `doubt`, row by row.

    Args:
        rows: with `COLUMNS`, and ``workload_key`` if there are ``flops``.
        flops: operations of workloads, by key, as far as they are known.
    """
    latency, count = numbers(rows, "latency_s"), numbers(rows, "flops")
    with np.errstate(all="ignore"):
        yield NO_COUNT, ~(np.isfinite(count) & (count >= 0))
        if flops:
            known = _by_text(rows, "workload_key", lambda key: flops.get(key, np.nan))
            low, high = np.minimum(known, count), np.maximum(known, count)
            yield OTHER, high > OTHER_COUNT * low
        created = rows.column("created_at").cast(pa.int64()).to_numpy()
        yield FUTURE, created > (time.time() + AHEAD.total_seconds()) * 1e6
        timed = ~np.isnan(latency)
        yield NO_LATENCY, timed & ~((latency >= SHORTEST_S) & (latency <= LONGEST_S))
        dense = _by_text(rows, "target", lambda target: _most(target, ""))
        most = np.where(_by_text(rows, "workload", _is_sparse), _most("", ""), dense)
        yield FASTER, (latency > 0) & (count / latency > most)


def believable(rows: pa.Table) -> np.ndarray:
    """Of which rows `faults` finds nothing."""
    good = np.ones(len(rows), np.bool_)
    for _, bad in faults(rows):
        good &= ~bad
    return good


def numbers(rows: pa.Table, column: str) -> np.ndarray:
    """A column of numbers; empty ones are NaN."""
    values: np.ndarray = rows.column(column).cast(pa.float64()).to_numpy()
    return values


@functools.lru_cache(maxsize=4096)
def _most(target: str, workload: str) -> float:
    """Operations a second that no machine of a target reaches, as records count them."""
    from tilework.target import Target

    if not target or _is_sparse(workload):  # what is not stored is counted, and not computed
        return MOST_OPERATIONS
    try:
        return Target(target).most_operations()
    except TileworkError:  # of another version
        return MOST_OPERATIONS


def _is_sparse(workload: str) -> bool:
    return "sparse" in workload


def _differs(count: float, known: float) -> bool:
    return max(count, known) > OTHER_COUNT * min(count, known)


def _by_text(rows: pa.Table, column: str, value: Callable[[str], float]) -> np.ndarray:
    """What a function says of a column's texts; each text is asked once."""
    if not len(rows):
        return np.zeros(0)
    texts = rows.column(column).combine_chunks().dictionary_encode()
    values = np.array([value(text) for text in texts.dictionary.to_pylist()])
    of_rows: np.ndarray = values[texts.indices.to_numpy(zero_copy_only=False)]
    return of_rows
