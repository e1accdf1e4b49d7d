"""Everything that a cost model has seen, as columns that trees read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilework.model.base import Batch, CostModelError, Floats, Observation
from tilework.model.columns import columns_of, names_of
from tilework.model.observed import Columns, Group, ObservedTask, Programs
from tilework.target import Target


class Memory:
    """Observations by group, of one kind of machine.

    Args:
        draft: whether blocks have drafted seconds; without, each takes an equal share of 1.
        machine: whether columns say what describes the machine.

    Attributes:
        tasks: the observations.
        kind: of machine; empty before the first batch.
        columns: names of the columns; None before the first batch.
    """

    def __init__(self, draft: bool, machine: bool) -> None:
        self._draft, self._machine = draft, machine
        self.tasks: dict[Group, ObservedTask] = {}
        self.kind = ""
        self.columns: tuple[str, ...] | None = None

    def __len__(self) -> int:
        """Distinct candidates."""
        return sum(map(len, self.tasks.values()))

    def of(self, keep: Callable[[Group], bool]) -> Memory:
        """Some groups of this memory; what was computed of them is not computed again."""
        some = Memory(self._draft, self._machine)
        some.kind, some.columns = self.kind, self.columns
        some.tasks = {group: task for group, task in self.tasks.items() if keep(group)}
        return some

    def block_s(self, batch: Batch) -> Floats:
        """Seconds of the blocks that trees correct, P x S."""
        if self._draft:
            return batch.block_s
        return np.full(batch.features.shape[:2], 1.0 / batch.features.shape[1])

    def table(self, batch: Batch) -> Columns:
        """The columns of a batch, P x S x C.

        Raises:
            CostModelError: they are not those of what was seen before.
        """
        target: Target = batch.sketch.target
        machine = batch.draft.machine(target) if self._machine else {}
        names = names_of(batch, machine)
        if self.columns is None:
            self.kind, self.columns = target.kind, names
        elif self.kind != target.kind:
            raise CostModelError(
                f"the cost model knows machines of kind '{self.kind}', and '{target}' is of "
                f"kind '{target.kind}': use a model that was trained for it"
            )
        elif self.columns != names:
            raise CostModelError(
                f"the cost model was trained on {len(self.columns)} feature columns that differ "
                f"from the {len(names)} of this engine: train a new model from the records"
            )
        return columns_of(batch, machine)

    def add(self, observation: Observation) -> None:
        """Remember measured candidates."""
        batch = observation.batch
        if len(batch) == 0:
            return
        table = self.table(batch)
        task = self.tasks.setdefault(group_of(batch), ObservedTask())
        order = observation.order
        if order is None:
            order = np.arange(len(task), len(task) + len(batch))
        latency = np.asarray(observation.latency_s, np.float64)
        programs = Programs(
            np.ascontiguousarray(batch.rows, dtype=np.int32).reshape(len(batch), -1),
            table,
            self.block_s(batch),
            np.where(np.isfinite(latency) & (latency > 0), latency, np.inf),
            np.asarray(order, np.intp),
        )
        task.add(batch.sketch.id, programs)


def group_of(batch: Batch) -> Group:
    """The group that candidates compare in."""
    return Group(batch.workload_key, str(batch.sketch.target), batch.device)
