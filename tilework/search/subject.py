"""What a task's candidates are measured as: programs of the task, which is what records are of.

A task whose extents a run decides has others: see `tilework.search.points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.record import History, Record
from tilework.search.protocol import MeasurerLike, Task, TimesFinals
from tilework.target.identity import DeviceIdentity


class Subject:
    """The tasks that the candidates of a searched task are measured as: here the task itself.

    What is measured has one entry for each candidate and task, those of the first task first.

    Attributes:
        task: what is searched.
        tasks: what records are of; a candidate costs as many trials.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tasks: tuple[Task, ...] = (task,)

    @property
    def flops(self) -> float:
        """Floating-point operations of what a latency is of."""
        return self.task.flops

    def measurable(self, candidate: Candidate) -> bool:
        """Whether a candidate can be measured: here any."""
        return True

    def measure(
        self,
        measurer: MeasurerLike,
        candidates: list[Candidate],
        best_s: float | None,
        limit: int | None,
    ) -> list[Measured]:
        """Measure candidates; arguments are those of `MeasurerLike.measure`."""
        if limit is None:
            return measurer.measure(self.task, candidates, best_s)
        return measurer.measure(self.task, candidates, best_s, limit=limit)

    def finals(self, measurer: TimesFinals, candidates: Sequence[Candidate]) -> list[Measured]:
        """Time candidates in turns."""
        return measurer.finals(self.task, candidates)

    def judged(self, measured: Sequence[Measured]) -> list[Measured]:
        """What was measured, as one result for each candidate."""
        return list(measured)

    def timed(self, measured: Sequence[Measured]) -> list[Measured]:
        """What was measured of the candidates that have a latency."""
        return [one for one in measured if one.latency_s is not None]

    def records(self, measured: Sequence[Measured], **columns: Any) -> list[Record]:
        """The records of what was measured; ``columns`` as `to_records` takes them."""
        count, out = len(measured) // len(self.tasks), list[Record]()
        for number, task in enumerate(self.tasks):
            first = number * count
            out += to_records(task, measured[first : first + count], first=first, **columns)
        return out

    def joined(self, records: Sequence[Record]) -> list[Record]:
        """What records of the tasks say of the searched one, a record for each candidate."""
        return list(records)

    def repeated(self, records: Sequence[Record]) -> set[str]:
        """Ids of records of one of the tasks from which nothing new is learnt.

        Here none: a search measures no program twice.
        """
        return set()

    def of(self, history: History, device: DeviceIdentity | None) -> list[Record]:
        """All records of the tasks on a device."""
        return [
            record
            for task in self.tasks
            for record in history.of(task.workload_key, str(task.target), device)
        ]

    def best(self, history: History, device: DeviceIdentity | None) -> Record | None:
        """The record that counts as the best of the searched task."""
        return history.best(self.task.workload_key, str(self.task.target), device)
