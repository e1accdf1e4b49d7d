"""Record stores as a run uses them: only what this engine understands, and its best apart."""

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
        path: directory or URI.
        must_exist: a missing store is an error: for what only reads.

    Raises:
        StoreError: the URI cannot be opened, or there is no store and `must_exist`.
    """
    from storage import RecordStore

    return RecordStore(path, rules_version=rules_version, must_exist=must_exist)


def rules_version(target: str) -> int | None:
    """Version of the sketch rules for targets such as ``target``; None if there is no such kind.

    Every kind of machine has rules of its own, whatever the rest of the target's text says.
    """
    from tilework import kinds

    kind = target.partition(" ")[0]
    return int(kinds.room(kind, "space").version) if kind in kinds.KINDS else None


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
    """Keep what the run found and learnt where it is found quickly: best records and model."""
    from storage.maintenance.distill import distill as distill_store
    from tilework.model import XGBModel

    store, model = run.store, run.session.model
    distill_store(
        store.location, [(task.workload_key, str(task.target)) for task in run.plan.tasks]
    )
    if isinstance(model, XGBModel) and model.trained:
        store.keep_model(str(run.target), model.to_json())
