"""Rows of a family, measured as the static programs that they are at its typical points.

Every measurement is an ordinary record of a static workload, which a static search might have
made. A candidate is as fast as the geometric mean of its latencies at all of the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.measure.candidates import Candidate, Measured
from tilework.model.family import FamilySketch
from tilework.overriding import override
from tilework.record import History, Purpose, Record, Status, best_of, writer_of
from tilework.search.protocol import MeasurerLike, Rows, Task, TimesFinals
from tilework.search.subject import Subject
from tilework.space.twins import Twin
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask


@frozen
class MeasuredSketch(FamilySketch):
    """A sketch of a family whose rows are static programs at each of some points.

    Attributes:
        twins: what it is at each of them, the greatest last.
    """

    twins: tuple[Twin, ...] = ()

    @property
    def target(self) -> Target:
        """The machine that it is for."""
        return self.views[0].target

    @property
    def num_decisions(self) -> int:
        """Columns of a row."""
        return self.views[0].num_decisions

    @property
    def num_live(self) -> int:
        """Decisions with more than one choice."""
        return max(view.num_live for view in self.views)

    @property
    def form(self) -> str:
        """What its DAG is, in words."""
        return self.views[0].form

    @property
    def stages(self) -> Any:
        """What becomes of each stage."""
        return self.views[0].stages

    def mutate(
        self, rng: np.random.Generator, rows: Rows, taken: NDArray[np.uint64] | None = None
    ) -> Rows:
        """One child of each row, by the choices of a point that is drawn for it.

        One that is not valid at all points, or is ``taken``, is its parent.
        """
        out, point = rows.copy(), rng.integers(0, len(self.views), len(rows))
        for number, view in enumerate(self.views):
            here = np.flatnonzero(point == number)
            if len(here):
                out[here] = view.mutate(rng, rows[here])
        bad = ~self.valid(out)
        if taken is not None:
            bad |= np.isin(self.row_hash(out), taken)
        out[bad] = rows[bad]
        return out

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Children that take each decision from either parent; invalid ones are ``a``."""
        out = self.views[0].crossover(rng, a, b)
        bad = ~self.valid(out)
        out[bad] = a[bad]
        return out

    def moved(self, rng: np.random.Generator, other: MeasuredSketch, rows: Rows) -> Rows:
        """Rows of this sketch like ``rows`` of a sibling."""
        at = int(rng.integers(0, len(self.views)))
        out = self.views[at].moved(rng, other.views[at], rows)
        return out[self.valid(out)]

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are programs within the limits at all points, and can be measured."""
        good = super().valid(rows)
        for twin in self.twins:
            placed, fits = twin.placed(rows)
            good &= fits
        return good & self.twins[-1].lifted(placed)[1]

    def canonical(self, rows: Rows) -> Rows:
        """The rows without what has no effect at the greatest point: what is measured."""
        greatest = self.twins[-1]
        placed, fits = greatest.placed(rows)
        plain, known = greatest.lifted(placed)
        return np.where((fits & known)[:, None], plain, super().canonical(rows))

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """Identity of each row's program at the greatest point, which `canonical` goes by."""
        greatest = self.twins[-1]
        return greatest.static.row_hash(greatest.placed(rows)[0])


class AtPoints(Subject):
    """A family, whose candidates are measured at its points, as the static tasks there.

    What this process has measured of each point says which candidates get a short look.

    Args:
        task: the family's.
        tasks: the static tasks at the points.
        sketches: of which candidates are, with a twin for each of the tasks.
        rules_version: of the sketches.
    """

    def __init__(
        self,
        task: Task,
        tasks: Sequence[SearchTask],
        sketches: Sequence[MeasuredSketch],
        rules_version: int,
    ) -> None:
        super().__init__(task)
        self.tasks: tuple[Task, ...] = tuple(tasks)
        self.sketches, self.rules_version = sketches, rules_version
        self._best_s: dict[int, float] = {}
        self._joined: dict[str, Record] = {}

    @property
    def flops(self) -> float:
        """The geometric mean of those at the points."""
        return _mean([max(task.flops, 1.0) for task in self.tasks]) or 0.0

    @override
    def measurable(self, candidate: Candidate) -> bool:
        sketch = next((s for s in self.sketches if s.id == candidate.sketch_id), None)
        row = np.array([candidate.row], np.int32)
        return sketch is not None and all(twin.placed(row)[1][0] for twin in sketch.twins)

    def measure(
        self,
        measurer: MeasurerLike,
        candidates: list[Candidate],
        best_s: float | None,
        limit: int | None,
    ) -> list[Measured]:
        """See `Subject.measure`; all candidates are measured, whatever the limit."""
        out: list[Measured] = []
        for number, task in enumerate(self.tasks):
            placed = self._placed(candidates, number)
            measured = measurer.measure(task, placed, self._best_s.get(number))
            known = [one.latency_s for one in measured if one.latency_s is not None]
            if known:
                self._best_s[number] = min([*known, self._best_s.get(number, math.inf)])
            out += measured
        return out

    @override
    def finals(self, measurer: TimesFinals, candidates: Sequence[Candidate]) -> list[Measured]:
        return [
            one
            for number, task in enumerate(self.tasks)
            for one in measurer.finals(task, self._placed(candidates, number))
        ]

    def _placed(self, candidates: Sequence[Candidate], number: int) -> list[Candidate]:
        """Candidates of the family as those of the static task at a point."""
        twins = {sketch.id: sketch.twins[number] for sketch in self.sketches}
        out = []
        for one in candidates:
            twin = twins[one.sketch_id]
            row = twin.placed(np.array([one.row], np.int32))[0][0]
            out.append(replace(one, sketch_id=twin.static.id, row=tuple(int(n) for n in row)))
        return out

    def _by_candidate(self, measured: Sequence[Measured]) -> list[Sequence[Measured]]:
        count = len(measured) // len(self.tasks)
        return [measured[i::count] for i in range(count)]

    @override
    def judged(self, measured: Sequence[Measured]) -> list[Measured]:
        return [
            replace(each[-1], latency_s=_mean([one.latency_s for one in each]))
            for each in self._by_candidate(measured)
        ]

    @override
    def timed(self, measured: Sequence[Measured]) -> list[Measured]:
        good = [all(m.latency_s is not None for m in e) for e in self._by_candidate(measured)]
        return [one for one, kept in zip(measured, good * len(self.tasks), strict=True) if kept]

    def repeated(self, records: Sequence[Record]) -> set[str]:
        """Candidates that differ at other points may be one program at a small one."""
        seen, out = set[Any](), set[str]()
        for record in records:
            program = record.sketch_id, record.decisions
            out |= {record.record_id} if program in seen else set()
            seen.add(program)
        return out

    @override
    def best(self, history: History, device: DeviceIdentity | None) -> Record | None:
        return best_of(self.joined(self.of(history, device)))

    def joined(self, records: Sequence[Record]) -> list[Record]:
        """Of the records of rounds of a family, one for each candidate.

        Its latency is the mean of those at the points; what failed at one of them has failed.
        Records that a round has at some points only, as those of static searches, say nothing.
        """
        if not self.tasks:
            return []
        *others, last = [task.workload_key for task in self.tasks]
        by_round: dict[Any, dict[Any, Record]] = {}
        for record in records:
            part = (*_round(record), record.workload_key)
            by_round.setdefault(part, {})[record.sketch_id, record.decisions] = record
        anchors = [record for record in records if record.workload_key == last]
        self._join([a for a in anchors if a.record_id not in self._joined], others, by_round)
        return [self._joined[a.record_id] for a in anchors if a.record_id in self._joined]

    def _join(
        self,
        anchors: Sequence[Record],
        others: Sequence[str],
        by_round: dict[Any, dict[Any, Record]],
    ) -> None:
        """Joins the records at the greatest point with those of the others."""
        version = self.rules_version
        for sketch in self.sketches:
            *twins, greatest = sketch.twins
            place = greatest.static.id, greatest.static.num_decisions, version
            mine = [
                a for a in anchors if (a.sketch_id, len(a.decisions), a.rules_version) == place
            ]
            if not mine:
                continue
            rows, known = greatest.lifted(np.array([a.decisions for a in mine], np.int32))
            placed = [twin.placed(rows) for twin in twins]
            for _, fits in placed:
                known = known & fits
            for i in np.flatnonzero(known):
                parts = [
                    by_round.get((*_round(mine[i]), key), {}).get(
                        (twin.static.id, tuple(int(n) for n in at[i]))
                    )
                    for key, twin, (at, _) in zip(others, twins, placed, strict=True)
                ]
                if None not in parts:
                    each = [part for part in parts if part is not None] + [mine[i]]
                    one = self._one(sketch.id, tuple(int(n) for n in rows[i]), each)
                    self._joined[mine[i].record_id] = one

    def _one(self, number: int, row: tuple[int, ...], parts: Sequence[Record]) -> Record:
        """One record of a candidate, from those at each point; its id is that of the last."""
        failed = next((part for part in parts if not part.usable), parts[-1])
        hashes = [part.code_hash for part in parts]
        return replace(
            parts[-1],
            workload_key=self.task.workload_key,
            workload=self.task.desc,
            flops=self.flops,
            sketch_id=number,
            decisions=row,
            code_hash=" ".join(hashes) if all(hashes) else "",
            status=failed.status,
            error=failed.error,
            purpose=Purpose.refused if failed.status == Status.unfit else parts[-1].purpose,
            latency_s=_mean([part.latency_s for part in parts]),
            latency_samples=(),
        )


def _mean(seconds: Sequence[float | None]) -> float | None:
    """The geometric mean; None if one is missing."""
    known = [s for s in seconds if s is not None]
    if not known or len(known) < len(seconds):
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))


def _round(record: Record) -> tuple[str, int, str, bool]:
    return record.run_id, record.round, writer_of(record), record.purpose == Purpose.final
