"""Finals: the fastest candidates of a task are timed in turns before one is called the best.

Of hundreds of single latencies, each a percent or two off, the lowest is mostly a lucky one, and a
busy machine makes it worse. The finalists are the lowest latencies recorded, of earlier runs too.
What the finals say is recorded like any measurement (`Purpose.final`), and replaces what was
measured before: see `tilework.record.best_of`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tilework.measure.candidates import Candidate, Measured
from tilework.record import Purpose, Record, best_of, contenders

WITHIN = 0.06
"""Finalists are at most this much slower than the fastest, by their records."""
DEFENDED = 0.02
"""A winner of finals need not defend itself against later records that are not this close."""
DISTURBED = 1.5
"""By which factor finals may be off from what the finalists' own records say; beyond it something
else ran beside them, or the machine is another than it was."""
FINAL_SHARE = 0.15
"""Share of a run's seconds that its finals may take on top; the heaviest tasks come first."""


class HeldFinals:
    """The finals that a run has held.

    Attributes:
        off: by index of a task, by how much its finals were off, of those that were disturbed.
    """

    def __init__(self) -> None:
        self._done: set[int] = set()
        self._began: float | None = None
        self.off: dict[int, float] = {}

    def in_time(self, elapsed_s: float, seconds: float | None) -> bool:
        """Whether a run of so many seconds has time for more; the first question begins finals."""
        self._began = elapsed_s if self._began is None else self._began
        return seconds is None or elapsed_s - self._began <= FINAL_SHARE * seconds

    def done(self, index: int) -> bool:
        """Whether a task has had its finals."""
        return index in self._done

    def hold(self, index: int) -> None:
        """A task's finals are held now."""
        self._done.add(index)

    def counts(self, index: int, earlier: Sequence[Record], measured: Sequence[Measured]) -> bool:
        """Whether what was measured counts: not if it was disturbed, for the first time.

        Then the finals are held again.
        """
        if len(measured) != len(earlier):
            return True
        ratio, again = off_by(earlier, measured), index in self.off
        if not disturbed(ratio):
            self.off.pop(index, None)
            return True
        self.off[index] = ratio
        if not again:
            self._done.discard(index)
        return again


def finalists(records: Iterable[Record], count: int) -> list[Record]:
    """The records whose programs should be timed in turns, fastest first; none if need not be.

    Two programs with the same code are one. A single finalist has nothing to be compared with.
    """
    recorded = list(records)
    best = best_of(recorded)
    if best is None or best.latency_s is None:
        return []
    field = sorted(
        (r for r in contenders(recorded) if r.latency_s is not None),
        key=lambda r: (r.latency_s, r.record_id),
    )
    newcomers = [r for r in field if r.purpose != Purpose.final]
    if best.purpose == Purpose.final and not _within(newcomers, best.latency_s, DEFENDED):
        return []
    chosen: dict[object, Record] = {}
    for record in _within(field, best.latency_s, WITHIN):
        chosen.setdefault(record.code_hash or (record.sketch_id, record.decisions), record)
    fastest = list(chosen.values())[:count]
    return fastest if len(fastest) > 1 else []


def off_by(earlier: Sequence[Record], measured: Sequence[Measured]) -> float:
    """How many times as long finalists took as their own records say, the median of them.

    Args:
        earlier: the records of the finalists.
        measured: what came of them, in the same order.

    Returns:
        1.0 where nothing can be compared.
    """
    ratios = [
        now.latency_s / then.latency_s
        for then, now in zip(earlier, measured, strict=True)
        if now.latency_s is not None and then.latency_s is not None
    ]
    return statistics.median(ratios) if ratios else 1.0


def disturbed(ratio: float) -> bool:
    """Whether finals that are `off_by` so much should not be believed at once."""
    return not 1 / DISTURBED <= ratio <= DISTURBED


def as_candidates(records: Iterable[Record]) -> list[Candidate]:
    """The programs of records, to be measured again."""
    return [
        Candidate(r.sketch_id, r.decisions, r.predicted_score or 0.0, r.model_id) for r in records
    ]


def _within(records: Iterable[Record], best_s: float, share: float) -> list[Record]:
    return [r for r in records if r.latency_s is not None and r.latency_s <= best_s * (1 + share)]
