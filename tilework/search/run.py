"""What one tuning run is: its tasks, its budgets, and what it goes by."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilework.frozen import frozen
from tilework.record import History
from tilework.search.family import space_for
from tilework.search.options import TuningError, TuningOptions
from tilework.search.pool import PoolSpace
from tilework.search.protocol import Task
from tilework.search.scope import Scope
from tilework.target.identity import DeviceIdentity, identity_of


@frozen(eq=False)
class TuningRun:
    """A run, as a session opens it.

    Attributes:
        tasks: the network's tasks.
        options: budgets.
        run_id: identity of the run; its rounds in the history are restored.
        weights: appearances of each task; the tasks' own weights if None.
        seed: of every random choice.
        network: name kept in the records; or one for each task.
        space_of: search space of a task.
        clock: seconds since some moment.
        warm: learn from the history's records of other networks first, and begin with what was
            best for other targets and alike workloads.
        build_factor: candidates to build for each one that is measured.
        device: whose records count; the device of each task's target on this machine if None.
            What was best on others is tried, and says nothing of latencies here.
        reproduce: command line that measures a record again, with `{record_id}` in it; for
            messages about failures.
        guides: other histories whose best programs are tried, such as packages; what they say of
            latencies counts for nothing.

    Raises:
        TuningError: no task, or weights or networks that do not match the tasks.
    """

    tasks: Sequence[Task]
    options: TuningOptions
    run_id: str
    weights: Sequence[float] | None = None
    seed: int = 0
    network: str | Sequence[str] = ""
    space_of: Callable[[Task], PoolSpace] = space_for
    clock: Callable[[], float] = time.monotonic
    warm: bool = True
    build_factor: int = 1
    device: DeviceIdentity | None = None
    reproduce: str = ""
    guides: History | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise TuningError("there is no task to tune")
        count = len(self.tasks)
        if len(self.weight_of_each()) != count:
            raise TuningError(f"{count} tasks have {len(self.weight_of_each())} weights")
        if len(self.network_of_each()) != count:
            names = len(self.network_of_each())
            raise TuningError(f"{count} tasks have the names of {names} networks")

    def weight_of_each(self) -> list[float]:
        """Weights of the tasks."""
        return [t.weight for t in self.tasks] if self.weights is None else list(self.weights)

    def network_of_each(self) -> list[str]:
        """Names of the tasks' networks."""
        if isinstance(self.network, str):
            return [self.network] * len(self.tasks)
        return list(self.network)

    def scope(self, task: Task, space: PoolSpace) -> Scope:
        """What the search of one of the tasks goes by."""
        params = self.options.policy
        return Scope(
            task,
            self.seed,
            params if self.warm else replace(params, guests=0),
            space,
            self.device or identity_of(task.target),
            self.guides,
        )
