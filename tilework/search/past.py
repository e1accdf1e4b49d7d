"""Rounds that a history holds already: what a session takes over when it begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from tilework.frozen import frozen
from tilework.record import History, Purpose, Record, writer_of
from tilework.search.policy import SketchPolicy


@frozen
class PastRound:
    """What one writer measured of one task at once.

    Attributes:
        index: of the task, in its session.
        run_id, number, writer: whose round it was; equal machines may work on one run at once.
        records: in the order in which they were made, at least one.
        joined: what they say of the task, a record for each candidate; see
            `tilework.search.subject`.
    """

    index: int
    run_id: str
    number: int
    writer: str
    records: tuple[Record, ...]
    joined: tuple[Record, ...] = ()

    @property
    def final(self) -> bool:
        """Whether finalists were timed in turns, and not new candidates."""
        return self.records[0].purpose == Purpose.final

    @property
    def ended_at(self) -> datetime:
        """When it was kept."""
        return max(record.created_at for record in self.records)


def past_rounds(policies: Sequence[SketchPolicy], history: History) -> Iterator[PastRound]:
    """Every round of these tasks, of whatever run, task by task.

    Records count that belong to a task's present space and were measured on its device.
    """
    for index, policy in enumerate(policies):
        rounds: dict[tuple[str, int, str, bool], list[Record]] = {}
        for _, known, finals in policy.measured(history):
            for record in (*known.records, *known.refused, *finals):
                final = record.purpose == Purpose.final
                part = (record.run_id, record.round, writer_of(record), final)
                rounds.setdefault(part, []).append(record)
        for (run_id, number, writer, _), records in rounds.items():
            joined = policy.subject.joined(records)
            yield PastRound(index, run_id, number, writer, tuple(records), tuple(joined))


def in_turn(rounds: Iterable[PastRound]) -> list[list[datetime]]:
    """When rounds of one run ended, in as many rows as machines worked on it at once.

    Writers that followed each other share a row: a run that was interrupted and went on.
    """
    by_writer: dict[str, list[datetime]] = {}
    for one in rounds:
        by_writer.setdefault(one.writer, []).append(one.ended_at)
    rows: list[list[datetime]] = []
    for times in sorted(map(sorted, by_writer.values())):
        row = next((row for row in rows if row[-1] <= times[0]), None)
        if row is None:
            rows.append(list(times))
        else:
            row += times
    return rows


def trials_of(records: Sequence[Record]) -> int:
    """How many candidates were measured, or failed at it; those only built are none."""
    return sum(record.purpose != Purpose.refused for record in records)


def ok_of(records: Sequence[Record]) -> int:
    """How many have a latency."""
    return sum(record.usable for record in records)


def best_s_of(records: Sequence[Record]) -> float:
    """The lowest latency in seconds; inf if there is none."""
    latencies = (r.latency_s for r in records if r.usable and r.latency_s is not None)
    return min(latencies, default=math.inf)
