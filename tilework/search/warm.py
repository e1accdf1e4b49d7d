"""What the records of other networks teach the cost model before a run begins.

A record holds its workload's key and a decision row. With the workload's compute DAG, kept in the
history as plain JSON, its sketches are derived again and its features computed, as for a task of
one's own. The model is one for all tasks, so that a network that was never seen starts with what
was learned on others.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ScheduleError, TileworkError
from tilework.model import Observation
from tilework.model.draft import draft_of
from tilework.record import History, Purpose, Record, WorkloadLog
from tilework.search.known import observations, read_known
from tilework.search.pool import PoolSpace
from tilework.search.protocol import Task
from tilework.space import SearchSpace, space_of
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask, rules_of
from tilework.te import ComputeDAG
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json
from tilework.travel.likeness import distance, shape_of

WARM_RECORDS = 3000
"""Records of other workloads that a run learns from at most."""
LEAST_SHARE = 24
"""Records of one workload, at least: of so many workloads that there would be less, the nearest
count."""


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


def other_workloads(
    history: History, tasks: Sequence[Task], device: DeviceIdentity | None = None
) -> list[Observation]:
    """Observations of workloads in the history that are like ``tasks``, the nearest first.

    Workloads whose DAG is not kept, or cannot be read, teach nothing. Where a workload has more
    records than its share, its fastest and an even choice of the others are taken: always the
    same ones.

    Args:
        history: records, and what their workloads compute.
        tasks: what is to be learnt for, all of one target; their own records are left out.
        device: whose records count; None: all do.
    """
    if not isinstance(history, WorkloadLog) or not tasks:
        return []
    target = str(tasks[0].target)
    own = {task.workload_key for task in tasks}
    keys = [key for key in history.workload_keys(target) if key not in own]
    texts = {key: text for key in keys if (text := history.workload(key)) is not None}
    most = WARM_RECORDS // LEAST_SHARE
    chosen = list(texts) if len(texts) <= most else nearest(texts, tasks)[:most]
    share = max(LEAST_SHARE, WARM_RECORDS // max(1, len(chosen)))
    return [
        observation
        for key in chosen
        for observation in _observed(history, key, texts[key], target, share, device)
    ]


def nearest(documents: Mapping[str, str], tasks: Sequence[Task]) -> list[str]:
    """Workloads by how near they are to the nearest of some tasks; see `tilework.travel.likeness`.

    What cannot be compared comes last.
    """
    known = []
    for task in tasks:
        if isinstance(task.compute_dag, ComputeDAG):
            with contextlib.suppress(DagFormatError):
                known.append(shape_of(dag_to_json(task.compute_dag)))

    def far(key: str) -> tuple[float, str]:
        shape = shape_of(documents[key])
        gaps = (distance(shape, other) for other in known if shape and other)
        return min(gaps, default=math.inf), key

    return sorted(documents, key=far)


def _observed(
    history: History,
    key: str,
    text: str,
    target: str,
    share: int,
    device: DeviceIdentity | None,
) -> list[Observation]:
    try:
        where = Target(target)
        present = space_of(where)
        found = history.of(key, target, device)
        records = [r for r in found if r.rules_version == present.version and _teaches(r)]
        if not records:
            return []
        dag, own = dag_from_json(text), rules_of(key)
        if SearchTask(dag, where, rules=own).workload_key != key:
            return []
        derived = SearchSpace.derive(dag, where, (*own, *present.rules))
    except TileworkError:
        return []
    space = PoolSpace(derived.sketches, draft_of(where), present.version)
    latency = np.array([r.latency_s if r.usable and r.latency_s else np.inf for r in records])
    kept = [records[i] for i in choose(latency, share)]
    return observations(read_known(space, kept), key, dag.flops)


def _teaches(record: Record) -> bool:
    return record.purpose in (Purpose.search, Purpose.final)


def choose(latency_s: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Positions of at most ``count`` records: the fastest half, the rest evenly by rank."""
    order = np.argsort(latency_s, kind="stable")
    if len(order) <= count:
        return np.arange(len(order))
    head, tail = order[: count // 2], order[count // 2 :]
    rest = count - len(head)
    spread = tail[(np.arange(rest) * len(tail)) // rest]
    return np.sort(np.concatenate([head, spread]))
