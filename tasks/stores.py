"""Record stores as a run uses them: what of them is used, and what is distilled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.run import TuningRun
    from tilework.task import SearchTask


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


def unused(store: RecordStore, tasks: Sequence[SearchTask]) -> list[str]:
    """A line for each kind of row that the store has of these tasks and that is not used, and why.

    Ask it after the tasks' records were read. Rows of other targets are looked for only where
    there is none of the tasks' own: that is when somebody wonders.
    """
    lines = list(store.problems)
    if not any(store.of(task.workload_key, str(task.target)) for task in tasks):
        lines += [
            f"{store.path}: {count} rows not used: they are of target {other}"
            for other, count in sorted(other_targets(store, tasks).items())
        ]
    return lines


def other_targets(store: RecordStore, tasks: Sequence[SearchTask]) -> dict[str, int]:
    """How many records of these tasks' workloads are of other targets, by target."""
    wanted = {(str(task.target), task.workload_key) for task in tasks}
    workloads = {workload for _, workload in wanted}
    known = store.keys()
    others = [key for key in known if key[1] in workloads and key not in wanted]
    found: Counter[str] = Counter()
    for table in store.scan(["target"], keys=others) if others else ():
        found.update(table.column("target").to_pylist())
    return dict(found)


def distill(run: TuningRun) -> None:
    """Keep what the run found where it is found quickly: the best records of its tasks."""
    from storage.maintenance.distill import distill as distill_bests

    keys = [(task.workload_key, str(task.target)) for task in run.plan.tasks]
    run.patiently(lambda: distill_bests(run.store.location, keys))
