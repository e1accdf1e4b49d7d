"""Record stores as a run uses them: what of them is used, for what, and what is distilled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.run import LiveRun
    from tilework.record import Record
    from tilework.search.protocol import Task


def open_store(path: str, *, must_exist: bool = False) -> RecordStore:
    """A store of which only records of the present sketch rules are used.

    The others stay where they are; `RecordStore.problems` counts them. What a record is good for
    is decided by its rules, never by the version of Tilework that made it.

    Args:
        must_exist: for what only reads: a missing store is an error, and not an empty one.

    Raises:
        StoreError: the URI cannot be opened, or there must be a store and is none.
    """
    from storage import RecordStore
    from storage.rules import present_rules

    return RecordStore(path, rules_version=present_rules, must_exist=must_exist)


def is_there(path: str) -> bool:
    """Whether there is a record store at a path or URI.

    Raises:
        StoreError: the URI cannot be opened, or its server cannot be asked.
    """
    from storage.files import Location

    return Location.of(path).is_there()


def records_of(store: RecordStore, task: Task) -> list[Record]:
    """All records of a task; of one of symbolic extents, one for each candidate of a search."""
    from tilework.search.family import space_for

    if not task.compute_dag.symbols:
        return store.of(task.workload_key, str(task.target))
    subject = space_for(task).subject(task)
    return subject.joined(subject.of(store, None))


def other_uses(store: RecordStore, tasks: Sequence[Task]) -> list[str]:
    """What rows of these tasks serve for that are of other targets, a line for each target.

    Looked for only where there is none of the tasks' own: that is when somebody wonders.
    """
    if any(store.of(task.workload_key, str(task.target)) for task in tasks):
        return []
    kind = tasks[0].target.kind
    lines = []
    for other, count in sorted(other_targets(store, tasks).items()):
        alike = other.partition(" ")[0] == kind
        use = "their schedules are tried as guests" if alike else "they serve other machines"
        lines.append(f"{store.path}: {count} rows of these tasks are of target {other}: {use}")
    return lines


def other_targets(store: RecordStore, tasks: Sequence[Task]) -> dict[str, int]:
    """How many records of these tasks' workloads are of other targets, by target."""
    wanted = {(str(task.target), task.workload_key) for task in tasks}
    workloads = {workload for _, workload in wanted}
    known = store.keys()
    others = [key for key in known if key[1] in workloads and key not in wanted]
    counts: Counter[str] = Counter()
    for table in store.scan(["target"], keys=others) if others else ():
        counts.update(table.column("target").to_pylist())
    return dict(counts)


def distill(run: LiveRun) -> None:
    """Keep what the run found where it is found quickly: the best records of its tasks."""
    from storage.maintenance.distill import distill as distill_bests

    keys = [(task.workload_key, str(task.target)) for task in run.session.measured]
    run.patiently(lambda: distill_bests(run.store.location, keys))
