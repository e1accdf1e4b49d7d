"""What the records of other networks teach the cost model before a run begins.

A record holds its workload's key and a decision row. With the workload's compute DAG, kept in the
history as plain JSON, its sketches are derived again and its features computed, as for a task of
one's own. The model is one for all tasks, so that a network that was never seen starts with what
was learned on others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ScheduleError, TileworkError
from tilework.model import Observation
from tilework.model.draft import draft_of
from tilework.record import History, WorkloadLog
from tilework.search.known import observations, read_known
from tilework.search.pool import PoolSpace
from tilework.search.protocol import Task
from tilework.space import SearchSpace, space_of
from tilework.target import Target
from tilework.task import SearchTask, rules_of
from tilework.te import ComputeDAG
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json

WARM_RECORDS = 3000
"""Records of other workloads that a run learns from at most."""
LEAST_SHARE = 24
"""Records of one workload, at least, when there are too many workloads for all to have more."""


def keep_workloads(history: History, tasks: Sequence[Task]) -> None:
    """Let the history keep what the tasks compute, if it can.

    A DAG with attributes that JSON does not know is left out: its records teach its own task only.
    So is a task with a user's sketch rules: what is kept of it would not give its sketches.
    """
    if not isinstance(history, WorkloadLog):
        return
    for task in tasks:
        if isinstance(task.compute_dag, ComputeDAG):
            key = task.workload_key
            if history.workload(key) is None and _known_rules(key):
                with contextlib.suppress(DagFormatError):
                    history.keep_workload(key, dag_to_json(task.compute_dag))


def _known_rules(key: str) -> bool:
    """Whether a task's rules are found again by its key."""
    try:
        rules_of(key)
    except ScheduleError:
        return False
    return True


def other_workloads(history: History, target: str, but: Collection[str]) -> list[Observation]:
    """Observations of the workloads of ``target`` in the history that are not ``but``.

    Workloads whose DAG is not kept, or cannot be read, teach nothing. Where a workload has more
    records than its share, its fastest and an even choice of the others are taken: always the
    same ones.
    """
    if not isinstance(history, WorkloadLog):
        return []
    keys = [key for key in history.workload_keys(target) if key not in but]
    documents = [(key, history.workload(key)) for key in keys]
    usable = [(key, text) for key, text in documents if text is not None]
    share = max(LEAST_SHARE, WARM_RECORDS // max(1, len(usable)))
    usable = usable[: WARM_RECORDS // LEAST_SHARE]
    return [o for key, text in usable for o in _observed(history, key, text, target, share)]


def _observed(history: History, key: str, text: str, target: str, share: int) -> list[Observation]:
    try:
        where = Target(target)
        present = space_of(where)
        records = [r for r in history.of(key, target) if r.rules_version == present.version]
        if not records:
            return []
        dag, own = dag_from_json(text), rules_of(key)
        if SearchTask(dag, where, rules=own).workload_key != key:
            return []
        found = SearchSpace.derive(dag, where, (*own, *present.rules))
    except TileworkError:
        return []
    space = PoolSpace(found.sketches, draft_of(where), present.version)
    latency = np.array([r.latency_s if r.usable and r.latency_s else np.inf for r in records])
    kept = [records[i] for i in choose(latency, share)]
    return observations(read_known(space, kept), key, dag.flops)


def choose(latency_s: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Positions of at most ``count`` records: the fastest half, the rest evenly by rank."""
    order = np.argsort(latency_s, kind="stable")
    if len(order) <= count:
        return np.arange(len(order))
    head, tail = order[: count // 2], order[count // 2 :]
    rest = count - len(head)
    spread = tail[(np.arange(rest) * len(tail)) // rest]
    return np.sort(np.concatenate([head, spread]))
