"""A search task: one subgraph to schedule for one target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilework.target import Target
from tilework.te import ComputeDAG, Tensor


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What is computed (``compute_dag``), where (``target``), and how often in its network.

    ``desc`` is a short readable name for tables; ``weight`` the number of appearances.
    """

    compute_dag: ComputeDAG
    target: Target
    desc: str = ""
    weight: int = 1

    @property
    def workload_key(self) -> str:
        """Structural identity of the computation; see `ComputeDAG.workload_key`."""
        return self.compute_dag.workload_key

    @property
    def flops(self) -> float:
        """Floating-point operations of one evaluation."""
        return self.compute_dag.flops


def create_task(
    function: Callable[..., Sequence[Tensor]],
    args: Sequence[Any],
    target: Target | str,
    desc: str = "",
) -> SearchTask:
    """Build a task from a function that declares and returns ``[inputs..., outputs...]``."""
    where = target if isinstance(target, Target) else Target(target)
    return SearchTask(ComputeDAG(function(*args)), where, desc or function.__name__)
