"""What the records of one task say, as arrays that the search reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model import Batch, Observation
from tilework.model.metrics import pairwise_accuracy
from tilework.record import Purpose, Record, Status
from tilework.search.pool import PoolSpace

RECENT = 48
"""Latest records that decide whether the model misleads."""
FEWEST = 16
"""Records that a judgement takes at least."""
RETRY = 16
"""Records made without the model after which it is asked again."""
LEARNED = "xgb"
"""How the ids of learned models begin."""


@frozen(eq=False)
class Known:
    """Records of one task that belong to its present space, in the order they were made.

    Attributes:
        records: the records; those of other rules or other sketches are left out.
        sketch: index of each record's sketch.
        latency_s: seconds, inf for a failed candidate.
        keys: identities of the programs that need not be measured again.
        refused: records of programs that were built only; see `tilework.record.Purpose`.
    """

    space: PoolSpace
    records: tuple[Record, ...]
    sketch: NDArray[np.int32]
    latency_s: NDArray[np.float64]
    keys: NDArray[np.uint64]
    refused: tuple[Record, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def num_ok(self) -> int:
        """Records with a latency."""
        return int(np.isfinite(self.latency_s).sum())

    @property
    def best_s(self) -> float:
        """Lowest latency in seconds; inf if there is none."""
        return float(self.latency_s.min(initial=np.inf))

    def rows(self, index: int, select: NDArray[np.intp]) -> NDArray[np.int32]:
        """Decision rows of those of the selected records that belong to one sketch."""
        chosen = [self.records[i].decisions for i in select if self.sketch[i] == index]
        width = self.space.sketches[index].num_decisions
        return np.array(chosen, dtype=np.int32).reshape(-1, width)

    def fastest(self, count: int) -> NDArray[np.intp]:
        """Positions of the fastest records, fastest first, failures left out."""
        order = np.argsort(self.latency_s, kind="stable")[:count]
        return order[np.isfinite(self.latency_s[order])]

    @cached_property
    def draft_s(self) -> NDArray[np.float64]:
        """Seconds by the analytic model of every record."""
        seconds = np.full(len(self), np.inf)
        for index, sketch in enumerate(self.space.sketches):
            where = np.flatnonzero(self.sketch == index)
            if len(where):
                rows = self.rows(index, where)
                seconds[where] = Batch("", 0.0, sketch, rows, self.space.draft).draft_s
        return seconds

    @cached_property
    def calibration(self) -> float:
        """Median of measured over drafted seconds; 1 without a record."""
        ok = np.isfinite(self.latency_s)
        return float(np.median(self.latency_s[ok] / self.draft_s[ok])) if ok.any() else 1.0

    def model_misleads(self) -> bool:
        """Whether the latest learned predictions ordered candidates worse than the draft model.

        Records keep what was predicted before they were measured. The learned model is set aside
        when its pairwise accuracy on the latest of them falls short of the draft's by more than
        chance explains; it gets another try when `RETRY` candidates were measured without it, from
        which it has learnt since. A batch is chosen by these predictions, so that little of their
        merit shows in it: the test errs on the side of the draft.
        """
        valid = np.flatnonzero(np.isfinite(self.latency_s))
        learned = np.array([self._predicted_by_model(int(i)) for i in valid], dtype=np.bool_)
        recent = valid[learned][-RECENT:]
        if len(recent) < FEWEST or int((valid > recent[-1]).sum()) >= RETRY:
            return False
        latency = self.latency_s[recent]
        scores = [self.records[i].predicted_score for i in recent]
        by_draft = pairwise_accuracy(-self.draft_s[recent], latency)
        return pairwise_accuracy(scores, latency) < by_draft - _chance(len(recent))

    def _predicted_by_model(self, index: int) -> bool:
        record = self.records[index]
        return record.model_id.startswith(LEARNED) and record.predicted_score is not None


def _chance(count: int) -> float:
    """Standard deviation of the pairwise accuracy of a random order (Kendall's tau, halved)."""
    return float(np.sqrt((2 * count + 5) / (18 * count * (count - 1))))


def read_known(space: PoolSpace, records: Iterable[Record]) -> Known:
    """Select the records of the space's version of the sketch rules and look up their programs.

    What finals measured is no record of its own here: it replaces the latency of its program. What
    was measured to watch the machine (`Purpose.canary`) is none either.
    """
    positions = {sketch.id: index for index, sketch in enumerate(space.sketches)}
    kept: list[Record] = []
    refused: list[Record] = []
    sketches: list[int] = []
    final: dict[tuple[int, tuple[int, ...]], float] = {}
    for record in records:
        index = positions.get(record.sketch_id)
        if index is None or record.rules_version != space.rules_version:
            continue
        if record.purpose == Purpose.canary:
            continue
        if record.purpose == Purpose.final:
            if record.usable and record.latency_s is not None:
                final[record.sketch_id, record.decisions] = record.latency_s
        elif len(record.decisions) == space.sketches[index].num_decisions:
            if record.purpose == Purpose.refused:
                refused.append(record)
            else:
                kept.append(record)
                sketches.append(index)
    sketch = np.array(sketches, dtype=np.int32)
    single = [r.latency_s if r.usable and r.latency_s is not None else np.inf for r in kept]
    programs = [(r.sketch_id, r.decisions) for r in kept]
    latency = [final.get(p, s) for p, s in zip(programs, single, strict=True)]
    known = Known(space, tuple(kept), sketch, np.array(latency), np.zeros(0, dtype=np.uint64))
    keys = np.zeros(len(kept), dtype=np.uint64)
    for index in range(len(space.sketches)):
        where = np.flatnonzero(sketch == index)
        if len(where):
            keys[where] = space.keys(index, known.rows(index, where))
    settled = np.concatenate([keys[_settled(kept, keys)], *_keys_of(refused, space, positions)])
    return Known(space, known.records, sketch, known.latency_s, settled, tuple(refused))


def _keys_of(
    records: list[Record], space: PoolSpace, positions: Mapping[int, int]
) -> Iterator[NDArray[np.uint64]]:
    """Identities of the records' programs, sketch by sketch."""
    rows: dict[int, list[tuple[int, ...]]] = {}
    for record in records:
        rows.setdefault(positions[record.sketch_id], []).append(record.decisions)
    return (space.keys(index, np.array(decisions, np.int32)) for index, decisions in rows.items())


def observations(
    known: Known, workload_key: str, flops: float, learnt: Collection[str] = ()
) -> list[Observation]:
    """The records, but those whose ids are ``learnt``, as a model learns them.

    A lost worker is left out: it says nothing about the candidate.
    """
    new = np.array(
        [r.status != Status.worker_lost and r.record_id not in learnt for r in known.records],
        dtype=bool,
    )
    observed = []
    for index, sketch in enumerate(known.space.sketches):
        where = np.flatnonzero((known.sketch == index) & new)
        if len(where):
            rows = known.rows(index, where)
            batch = Batch(workload_key, flops, sketch, rows, known.space.draft)
            observed.append(Observation(batch, known.latency_s[where], where))
    return observed


def _settled(records: list[Record], keys: NDArray[np.uint64]) -> list[int]:
    """Positions of records whose program is done: once lost with its worker, it may try again."""
    lost = Counter(
        int(key)
        for key, record in zip(keys, records, strict=True)
        if record.status == Status.worker_lost
    )
    return [
        index
        for index, record in enumerate(records)
        if record.status != Status.worker_lost or lost[int(keys[index])] > 1
    ]
