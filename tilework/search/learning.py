"""What the cost model of a run learns, and when."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.model import CostModel, Observation
from tilework.record import History
from tilework.search.corpus import other_workloads
from tilework.search.known import observations
from tilework.search.policy import SketchPolicy


class Learning:
    """The records that a model has learnt from, and those that it has yet to see.

    Args:
        model: the model.
        policies: of each task.
        history: of all records.
        warm: whether it also learns, once, what the history knows of other networks on these
            targets and devices.
    """

    def __init__(
        self, model: CostModel, policies: Sequence[SketchPolicy], history: History, warm: bool
    ) -> None:
        self._model, self._policies, self._history = model, policies, history
        self._learnt: list[set[str]] = [set() for _ in policies]
        self._new = set(range(len(policies)))
        self._others = self._other_workloads() if warm else []

    def note(self, index: int) -> None:
        """There are new records of a task."""
        self._new.add(index)

    def refit(self) -> None:
        """Let the model learn from the records that it has not seen.

        What it failed to learn, it is given again the next time.
        """
        observed, seen = list(self._others), dict[int, set[str]]()
        for index in sorted(self._new):
            seen[index] = set()
            policy = self._policies[index]
            for task, known, _ in policy.measured(self._history):
                learnt = self._learnt[index] | policy.subject.repeated(known.records)
                observed += observations(known, task.workload_key, task.flops, learnt)
                seen[index].update(record.record_id for record in known.records)
        if observed:
            self._model.update(observed)
        self._others = []
        for index, ids in seen.items():
            self._learnt[index] = ids
        self._new.clear()

    def _other_workloads(self) -> list[Observation]:
        where = {(str(p.task.target), p.device): None for p in self._policies}
        tasks = [task for p in self._policies for task in p.subject.tasks]
        return [
            observation
            for target, device in where
            for observation in other_workloads(
                self._history, [t for t in tasks if str(t.target) == target], device
            )
        ]
