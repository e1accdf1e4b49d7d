"""Which schedule a task is compiled with: the best measured, one from elsewhere, or a draft."""

from __future__ import annotations

import numpy as np

from tilework.compiler.kernels import Kernels
from tilework.model.choice import Choice
from tilework.model.effort import effort_for
from tilework.record import (
    History,
    Knowing,
    Record,
    best_elsewhere,
    best_of,
    latest_word,
    layers_of,
)
from tilework.target.identity import DeviceIdentity, device_here
from tilework.task import SearchTask


def choose_schedule(
    task: SearchTask,
    history: History | None = None,
    *,
    direct: bool = False,
    kernels: Kernels | None = None,
    share: float = 1.0,
) -> Choice:
    """The best schedule on record for the task, or else the draft model's best.

    Records of this machine count; where there is none, what was best on another device of the
    same target serves, and its latency is not taken for one of this machine. Without a record of
    the target itself, the best ones of other targets and of alike workloads are mapped into its
    space (`tilework.travel`), and one is taken if it wins against the draft's choice
    (`tilework.compiler.transfer`). The same task and records give the same choice, in any process.
    A task whose extents a run decides has the records of its typical points:
    `tilework.compiler.families`.

    Args:
        direct: leave out rewritten DAGs (Winograd).
        kernels: which may have the choice from before.
        share: of its network's run that a task takes at most whose extents a run decides: the
            draft looks less closely where that is little.

    Raises:
        ScheduleError: there is no record, and no sketch has a valid row.
    """
    kept = kernels or Kernels(task.target)
    effort = effort_for(share)

    # Imports are where a start does without whose choices are kept, or whom nobody has a word for;
    # which device this is takes as long as ten choices.

    def draft() -> Choice | None:
        from tilework.model.drafted import drafted

        return drafted(task, direct=direct, effort=effort)

    def drafts() -> Choice | None:
        return kept.choice("draft", task, [direct, *effort], draft)

    def find() -> Choice | None:
        if history is None or not _knows(history, task):
            own = drafts()
            if own is not None or history is None:
                return own
        device = device_here(task.target)
        if task.compute_dag.symbols:
            from tilework.compiler.families import recorded

            own = drafts()
            return recorded(task, history, own, device=device, direct=direct) or own
        from tilework.compiler.transfer import transferred

        record = best_record(task, history, device, direct=direct)
        if record is not None:
            return _as_recorded(record, device)
        own = drafts()
        return transferred(task, history, own, device=device, direct=direct)

    state = kept.state(history)
    if state is None:
        choice = find()
    else:
        whole = [direct, *effort, state, repr(device_here(task.target))]
        choice = kept.choice("best", task, whole, find)
    if choice is None:
        from tilework.model.drafted import draft_schedule

        return draft_schedule(task, direct=direct)
    return choice


def _knows(history: History, task: SearchTask) -> bool:
    """Whether a history may say other than a draft: it has the task, or a model of its kind."""
    if task.compute_dag.symbols:  # each point of a family has a key of its own
        return True
    key, kind = task.workload_key, task.target.kind
    return not all(
        isinstance(layer, Knowing) and not layer.knows(key, kind) for layer in layers_of(history)
    )


def _as_recorded(record: Record, device: DeviceIdentity | None) -> Choice:
    """The record's schedule; its latency, unless another device than this one took it."""
    own = device is None or device.owns(record)
    return Choice(
        record.sketch_id,
        record.decisions,
        "tuned" if own else "elsewhere",
        record.latency_s if own else None,
        record_id=record.record_id,
        device=record.device,
    )


def best_record(
    task: SearchTask,
    history: History,
    device: DeviceIdentity | None = None,
    *,
    direct: bool = False,
) -> Record | None:
    """The record that the task is compiled with, of those that the present rules understand.

    It is the best of ``device``, or else that of another one: where finals were held rather than
    not, and lately rather than long ago; of several histories (`tilework.record.layers_of`) the
    first one that has any. Latencies of different devices are not compared. Without a device, as
    for code that is to run elsewhere, all are others.
    """
    key, target = task.workload_key, str(task.target)
    if device is not None:
        best = history.best(key, target, device)
        if best is not None and not _replays(task, best, direct):
            own = history.of(key, target, device)
            best = best_of(r for r in own if _replays(task, r, direct))
        if best is not None:
            return best
    each = (_elsewhere(task, layer, device, direct) for layer in layers_of(history))
    return next((record for record in each if record is not None), None)


def _elsewhere(
    task: SearchTask, history: History, device: DeviceIdentity | None, direct: bool
) -> Record | None:
    """Which record of other devices to go by."""
    key, target = task.workload_key, str(task.target)
    hints = history.hints(key, target, device)
    records = [r for r in hints if _replays(task, r, direct)]
    if hints and not records:
        known = history.of(key, target)
        records = best_elsewhere((r for r in known if _replays(task, r, direct)), device)
    return latest_word(records)


def _replays(task: SearchTask, record: Record, direct: bool) -> bool:
    """Whether the record's row is a schedule (of a direct form) under the present rules."""
    from tilework.space import SearchSpace, space_of

    sketches = SearchSpace.of(task).sketches
    if record.rules_version != space_of(task.target).version or not 0 <= record.sketch_id < len(
        sketches
    ):
        return False
    sketch = sketches[record.sketch_id]
    if len(record.decisions) != sketch.num_decisions or (direct and sketch.transforms):
        return False
    return bool(sketch.valid(np.array([record.decisions], np.int32))[0])
