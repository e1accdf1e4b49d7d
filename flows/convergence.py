"""Convergence: the best found so far against trials and against time, per task and in all.

What counts as the best is what the search, the compiler and the summary say (`best_of`): finals
have the last word on what was measured before them. So a curve ends at the summary's number.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.record import Record


@dataclass(frozen=True)
class Curve:
    """``total_s[i]`` is the network's estimated latency after ``trials[i]`` measurements.

    Measurements of finals are no trials; they have points of their own. ``seconds`` are of work,
    about: interruptions are left out, and the measurements of a round spread over it.

    Attributes:
        assumed: so many points at the beginning count a task that was not measured yet as its
            first valid measurement found it.
    """

    trials: tuple[int, ...]
    total_s: tuple[float, ...]
    seconds: tuple[float, ...]
    assumed: int = 0


@dataclass(frozen=True)
class Point:
    """One measurement of a task.

    Attributes:
        trial: of this task, from 1; those of finals have the number of the last trial.
        seconds: of work on this task, about.
        gflops: its speed, NaN if it failed.
        best_gflops: of what counts as the best then, NaN before the first.
        final: whether it was made to choose among the fastest.
    """

    trial: int
    seconds: float
    gflops: float
    best_gflops: float
    final: bool = False


@dataclass(frozen=True)
class TaskCurve:
    """The measurements of one task in their order; ``share`` is its part of the network's time."""

    name: str
    points: tuple[Point, ...]
    share: float


def convergence(
    records: Sequence[Record],
    weights: Mapping[str, float],
    drafts: Mapping[str, float] | None = None,
) -> Curve:
    """The network's curve.

    Args:
        records: of one target and device, in the order in which they were made.
        weights: the number of calls of each workload. Records of other workloads are left out.
        drafts: seconds that the draft model predicts, by workload: what counts of those without
            any valid measurement, as in a run's estimate. Others do not count.
    """
    readings = _readings(records, weights)
    known = {key: draft for key, draft in (drafts or {}).items() if key in weights}
    known.update(_first_latencies(readings))
    watch = {key: _Best() for key in known}
    waiting = {one.record.workload_key for one in readings if one.record.usable}
    trials, totals, seconds, assumed = [], [], [], 0
    count, spent = 0, 0.0
    for one in readings if waiting else ():
        record = one.record
        count += record.purpose == "search"
        if record.workload_key in watch:
            best = watch[record.workload_key].see(record, one.last)
            if best is not None:
                known[record.workload_key] = best
                waiting.discard(record.workload_key)
        trials.append(count)
        seconds.append(spent + one.into_s)
        spent += one.into_s if one.last else 0.0
        totals.append(sum(weights[key] * latency for key, latency in known.items()))
        assumed += bool(waiting)
    return Curve(tuple(trials), tuple(totals), tuple(seconds), assumed)


def _first_latencies(readings: Sequence[_Reading]) -> dict[str, float]:
    latencies: dict[str, float] = {}
    for record in (one.record for one in readings):
        if record.usable and record.latency_s is not None:
            latencies.setdefault(record.workload_key, record.latency_s)
    return latencies


def task_curves(records: Sequence[Record], weights: Mapping[str, float]) -> list[TaskCurve]:
    """One curve per workload with a valid record, the heaviest first; see `convergence`."""
    by_key: dict[str, list[_Reading]] = {}
    for one in _readings(records, weights):
        by_key.setdefault(one.record.workload_key, []).append(one)
    cost: list[tuple[float, str, tuple[Point, ...]]] = []
    for key, readings in by_key.items():
        points, first = _points(readings), readings[0].record
        if not math.isnan(points[-1].best_gflops):
            seconds = first.flops / points[-1].best_gflops / 1e9
            cost.append((weights[key] * seconds, first.workload, points))
    total = sum(seconds for seconds, _, _ in cost)
    cost.sort(key=lambda one: -one[0])
    return [TaskCurve(name, points, seconds / total) for seconds, name, points in cost]


def _points(readings: Sequence[_Reading]) -> tuple[Point, ...]:
    best, trial, points, spent = _Best(), 0, [], 0.0
    for one in readings:
        record = one.record
        trial += record.purpose == "search"
        best.see(record, one.last)
        points.append(
            Point(
                trial,
                spent + one.into_s,
                _gflops(record, record.latency_s if record.usable else None),
                _gflops(record, best.seconds),
                record.purpose == "final",
            )
        )
        spent += one.into_s if one.last else 0.0
    return tuple(points)


def _gflops(record: Record, seconds: float | None) -> float:
    return math.nan if seconds is None else record.flops / seconds / 1e9


class _Best:
    """The best latency of one task while its records go by, by the rule of `best_of`.

    Finals speak at the end of their round, for their device. Until then nothing changes. Records
    from before devices had an id are their host's, until finals of a device of that name speak.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}
        self._verdict = math.inf

    @property
    def seconds(self) -> float | None:
        """What counts as the best now; None before the first valid record."""
        return min(self._known.values(), default=None)

    def see(self, record: Record, last: bool) -> float | None:
        """The best after one more record, the ``last`` of its round; None before a valid one."""
        device = (record.device_id or record.host, "" if record.device_id else record.device)
        latency_s = record.latency_s if record.usable else None
        if record.purpose == "final":
            self._verdict = min(self._verdict, math.inf if latency_s is None else latency_s)
            if last:
                if self._verdict < math.inf:
                    self._forget_older(record)
                    self._known[device] = self._verdict
                self._verdict = math.inf
        elif latency_s is not None:
            self._known[device] = min(self._known.get(device, math.inf), latency_s)
        return self.seconds

    def _forget_older(self, final: Record) -> None:
        """Drop what was known of a device of this name before it had an id."""
        if final.device_id:
            self._known = {k: s for k, s in self._known.items() if k[1] != final.device}


@dataclass(frozen=True)
class _Reading:
    """A record and when it was measured.

    Attributes:
        into_s: seconds since its round began.
        last: whether it is the last of its round.
    """

    record: Record
    into_s: float
    last: bool


def _readings(records: Sequence[Record], wanted: Container[str]) -> list[_Reading]:
    """When each measurement of the wanted workloads was made, in order.

    The records of a round bear the time of its end; their own times are spread over it.
    """
    measured = sorted((r for r in records if r.purpose in ("search", "final")), key=_round)
    rounds = [list(rows) for _, rows in groupby(measured, _round)]
    return [
        _Reading(record, lasted * place / len(rows), place == len(rows))
        for rows, lasted in zip(rounds, _lasted(rounds), strict=True)
        if rows[0].workload_key in wanted
        for place, record in enumerate(rows, 1)
    ]


def _round(record: Record) -> tuple[datetime, str, int]:
    return (record.created_at, record.run_id, record.round)


def _lasted(rounds: Sequence[Sequence[Record]]) -> list[float]:
    """How long each round took: since the end of the run's round before.

    The first of a run, and one after an interruption, are taken to have lasted as rounds usually
    do. Of a lone round nothing is known but how long its candidates took to build.
    """
    from tilework.search.budget import LONGEST_GAP_S

    known: list[float | None] = []
    ended: dict[str, datetime] = {}
    for first in (rows[0] for rows in rounds):
        before = ended.get(first.run_id)
        gap = None if before is None else (first.created_at - before).total_seconds()
        known.append(gap if gap is not None and gap <= LONGEST_GAP_S else None)
        ended[first.run_id] = first.created_at
    built = [sum(record.build_s or 0.0 for record in rows) for rows in rounds[:1]]
    usual = median([gap for gap in known if gap] or built or [0.0])
    return [usual if gap is None else gap for gap in known]
