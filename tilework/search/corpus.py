"""What a history's records teach: lessons, each of one workload on one target and device.

A record holds its workload's key and a decision row. With the workload's compute DAG, kept in the
history as plain JSON, its sketches are derived again and its features computed, as for a task of
one's own. The model is one for all tasks, so that a network that was never seen starts with what
was learned on others.

What is learnt from is chosen by latency alone, before anything is derived: of each lesson the
fastest half of its share, and an even choice of the others.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ScheduleError, TileworkError
from tilework.frozen import frozen
from tilework.model import Batch, Observation
from tilework.model.draft import draft_of
from tilework.model.matrix import even_quota
from tilework.record import History, WorkloadLog
from tilework.search.protocol import Task
from tilework.space import SearchSpace, space_of
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask, rules_of
from tilework.te import ComputeDAG
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json
from tilework.travel.likeness import distance, shape_of, shape_of_dag
from tilework.trials import Trials, by_device, trials_of

LEAST_SHARE = 24
"""Records of one lesson, at least: of so many lessons that there would be less, an even choice
counts."""
MOST = 40_000
"""Records that a model of many targets is trained on at most."""


@frozen(eq=False)
class Lesson:
    """Measured rows of one workload on one target and device, those that are learnt from.

    Attributes:
        workload_key: identity of the workload.
        target: what the code was made for.
        device: on which it was measured: latencies compare within a lesson.
        flops: operations of the workload.
        observations: the rows, sketch by sketch; features are computed when they are asked for.
        document: the workload's compute DAG as JSON.
    """

    workload_key: str
    target: Target
    device: str
    flops: float
    observations: tuple[Observation, ...]
    document: str

    def __len__(self) -> int:
        return sum(len(o.batch) for o in self.observations)


@frozen(eq=False)
class _Usable:
    """Trials of one device, and which of them may be learnt from."""

    trials: Trials
    device: str
    where: NDArray[np.intp]
    latency_s: NDArray[np.float64]

    def chosen(self, count: int) -> _Usable:
        kept = choose(self.latency_s, count)
        return _Usable(self.trials, self.device, self.where[kept], self.latency_s[kept])


def lessons(
    history: History,
    targets: Iterable[str],
    *,
    device: DeviceIdentity | None = None,
    most: int = MOST,
    keep: Callable[[str, str], bool] | None = None,
) -> list[Lesson]:
    """What a history teaches of some targets.

    Workloads whose DAG is not kept, or cannot be read, teach nothing; nor do records of other
    sketch rules than the present ones. Always the same for the same records.

    Args:
        history: records, and what their workloads compute.
        targets: canonical texts.
        device: whose records count; None: those of all devices, each a lesson of its own.
        most: rows of all lessons together, about.
        keep: of a workload's key and a target's text, whether to learn from it; None: from all.
    """
    if not isinstance(history, WorkloadLog):
        return []
    wanted: list[tuple[str, str]] = []
    for target in dict.fromkeys(targets):
        keys = history.workload_keys(target)
        wanted += [(target, key) for key in keys if keep is None or keep(key, target)]
    limit = max(most // LEAST_SHARE, 1)
    if len(wanted) > limit:
        wanted = [wanted[i * len(wanted) // limit] for i in range(limit)]
    share = max(LEAST_SHARE, most // max(len(wanted), 1))
    groups: list[_Usable] = []
    for target in dict.fromkeys(target for target, _ in wanted):
        version = _rules_version(target)
        for trials in trials_of(history, target, [key for t, key in wanted if t == target]):
            groups += [f.chosen(4 * share) for f in _usable(trials, version, device)]
    groups.sort(key=lambda f: (f.trials.target, f.trials.workload_key, f.device))
    quota = even_quota([len(f.where) for f in groups], most)
    return _derived(history, [f.chosen(quota) for f in groups])


def _rules_version(target: str) -> int | None:
    """The version of the sketch rules of a target's kind; None if the text names no target."""
    try:
        return space_of(Target(target)).version
    except TileworkError:
        return None


def _usable(trials: Trials, version: int | None, device: DeviceIdentity | None) -> list[_Usable]:
    """Trials of the present rules by device; finals' latencies stand for their programs'."""
    out = []
    for one in by_device(trials, device):
        where = one.where[trials.rules_version[one.where] == version]
        latency = trials.latency_s[where].copy()
        finals = where[trials.final[where] & np.isfinite(latency)]
        if len(finals):
            verdict = {_name(trials, int(i)): trials.latency_s[i] for i in finals}
            names = [_name(trials, int(i)) for i in where]
            latency = np.array(
                [verdict.get(n, s) for n, s in zip(names, latency, strict=True)], np.float64
            )
        single = ~trials.final[where]
        if single.any():
            out.append(_Usable(trials, one.device, where[single], latency[single]))
    return out


def _name(trials: Trials, at: int) -> tuple[int, bytes]:
    """Identity of a candidate's program within its workload."""
    row = trials.decisions[trials.offsets[at] : trials.offsets[at + 1]]
    return int(trials.sketch_id[at]), row.tobytes()


def _derived(history: WorkloadLog, groups: Sequence[_Usable]) -> list[Lesson]:
    """Lessons of what was found; each workload's space is derived once for a target."""
    out: list[Lesson] = []
    known: tuple[Trials, tuple[str, float, SearchSpace] | None] | None = None
    for one in groups:
        if known is None or known[0] is not one.trials:
            known = (one.trials, _space(history, one.trials))
        if known[1] is None:
            continue
        document, flops, space = known[1]
        observations = _observations(one, flops, space)
        if observations:
            key, target = one.trials.workload_key, Target(one.trials.target)
            out.append(Lesson(key, target, one.device, flops, observations, document))
    return out


def _space(history: WorkloadLog, trials: Trials) -> tuple[str, float, SearchSpace] | None:
    """A workload's document, operations and space; None where it cannot be derived."""
    key = trials.workload_key
    document = history.workload(key)
    if document is None:
        return None
    try:
        target, own = Target(trials.target), rules_of(key)
        dag = dag_from_json(document)
        if SearchTask(dag, target, rules=own).workload_key != key:
            return None
        return (
            document,
            dag.flops,
            SearchSpace.derive(dag, target, (*own, *space_of(target).rules)),
        )
    except TileworkError:
        return None


def _observations(one: _Usable, flops: float, space: SearchSpace) -> tuple[Observation, ...]:
    trials, out = one.trials, []
    ids, widths = trials.sketch_id[one.where], trials.widths[one.where]
    for sketch in space.sketches:
        here = np.flatnonzero((ids == sketch.id) & (widths == sketch.num_decisions))
        if not len(here):
            continue
        rows = trials.rows(one.where[here], sketch.num_decisions)
        draft = draft_of(sketch.target)
        batch = Batch(trials.workload_key, flops, sketch, rows, draft, device=one.device)
        out.append(Observation(batch, one.latency_s[here], one.where[here]))
    return tuple(out)


def choose(latency_s: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Positions of at most ``count`` records: the fastest half, the rest evenly by rank."""
    order = np.argsort(latency_s, kind="stable")
    if len(order) <= count:
        return np.arange(len(order))
    head, tail = order[: count // 2], order[count // 2 :]
    rest = count - len(head)
    spread = tail[(np.arange(rest) * len(tail)) // rest]
    return np.sort(np.concatenate([head, spread]))


WARM_RECORDS = 3000
"""Records of other workloads that a run learns from at most."""


def other_workloads(
    history: History, tasks: Sequence[Task], device: DeviceIdentity | None = None
) -> list[Observation]:
    """Observations of workloads in the history that are like ``tasks``, the nearest first.

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
    chosen = set(texts) if len(texts) <= most else set(nearest(texts, tasks)[:most])
    taught = lessons(
        history, [target], device=device, most=WARM_RECORDS, keep=lambda key, _: key in chosen
    )
    return [observation for lesson in taught for observation in lesson.observations]


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


def nearest(documents: Mapping[str, str], tasks: Sequence[Task]) -> list[str]:
    """Workloads by how near they are to the nearest of some tasks; see `tilework.travel.likeness`.

    What cannot be compared comes last.
    """
    known = [shape_of_dag(task.compute_dag) for task in tasks]

    def far(key: str) -> tuple[float, str]:
        shape = shape_of(documents[key])
        gaps = (distance(shape, other) for other in known if shape and other)
        return min(gaps, default=math.inf), key

    return sorted(documents, key=far)
