"""Build and measure one recorded candidate again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.device_lock import hold_device
from tilework.errors import StoreError
from tilework.record import Record, Status, best_of, by_device

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.measure import Measured
    from tilework.task import SearchTask

Program = tuple[int, tuple[int, ...]]
"""Sketch and decision row."""


@dataclass(frozen=True)
class Reproduced:
    """A record, and the same candidate measured now.

    Attributes:
        result: what came of it now.
        traceback: where building failed; empty if it did not.
        best_s: recorded latency of the task's best candidate on the same device, if there is one.
    """

    record: Record
    schedule: str
    result: Measured
    traceback: str
    best_s: float | None


def measured_now(
    task: SearchTask, programs: Sequence[Program], who: str, tell: Callable[[str], None]
) -> list[Measured | None]:
    """Build, verify and time programs of a task in turns.

    One of a task whose extents a run decides is timed as the static program that it is at each of
    the typical points, and takes the geometric mean of these; None if it is none at one of them.

    Args:
        who: what measures, for others that wait for the device.
        tell: gets a line if the device is another's, and is waited for.
    """
    from tilework.measure import Candidate, Measurer
    from tilework.search.family import space_for
    from tilework.target.identity import device_here

    subject = space_for(task).subject(task)
    candidates = [Candidate(sketch, tuple(row), 0.0, "") for sketch, row in programs]
    can = [subject.measurable(one) for one in candidates]
    if not any(can):
        return [None] * len(programs)
    held = hold_device(device_here(task.target), who, tell=tell)
    with held, Measurer(task.target) as measurer:
        some = [one for one, good in zip(candidates, can, strict=True) if good]
        measured = iter(subject.judged(subject.finals(measurer, some)))
    return [next(measured) if good else None for good in can]


def reproduce(
    store: RecordStore, record_id: str, tell: Callable[[str], None] = lambda _: None
) -> Reproduced:
    """Measure the candidate of a record again, from what the store keeps.

    Args:
        tell: gets a line if the device is another's, and is waited for.

    Raises:
        StoreError: the record is not there, its schedule belongs to other rules, or the store does
            not keep what its workload computes.
    """
    record = find_record(store, record_id)
    task = task_of(store, record)
    program = (record.sketch_id, record.decisions)
    (result,) = measured_now(task, [program], f"reproduce {record.record_id}", tell)
    assert result is not None  # records are of static workloads
    trace = _build_here(task, record) if result.status == Status.compile_error else ""
    same = by_device(store.of(record.workload_key, record.target))
    best = next((best_of(rows) for rows in same if record in rows), None)
    return Reproduced(
        record, _schedule(task, record), result, trace, best.latency_s if best else None
    )


def find_record(store: RecordStore, record_id: str) -> Record:
    """The record of this id, or of the only id that begins so.

    Raises:
        StoreError: there is none, or more than one.
    """
    records = {record.record_id: record for record in store.find(record_id)}
    if record_id in records:
        return records[record_id]
    if len(records) == 1:
        return next(iter(records.values()))
    if records:
        raise StoreError(
            f"{len(records)} records of {store.path!r} begin with {record_id!r}: give more of it"
        )
    raise StoreError(
        f"there is no record {record_id!r} in {store.path!r}: `tilework explain NET:ID` and "
        "`tilework records show --failures` name some"
    )


def task_of(store: RecordStore, record: Record) -> SearchTask:
    """The task that a record belongs to.

    Raises:
        StoreError: other rules made it, or what the workload computes is not kept.
    """
    from tilework.space import space_of
    from tilework.target import Target
    from tilework.task import SearchTask, rules_of
    from tilework.te.serial import dag_from_json

    target = Target(record.target)
    present = space_of(target).version
    if record.rules_version != present:
        raise StoreError(
            f"record {record.record_id} was made by rules version {record.rules_version}, and "
            f"this is {present}: its decisions mean something else now"
        )
    document = store.workload(record.workload_key)
    if document is None:
        raise StoreError(
            f"{store.path!r} does not keep what workload {record.workload_key} computes: tune the "
            "network once more with this store"
        )
    return SearchTask(
        dag_from_json(document),
        target,
        record.workload,
        rules=rules_of(record.workload_key),
    )


def _schedule(task: SearchTask, record: Record) -> str:
    from tilework.errors import TileworkError
    from tilework.space import SearchSpace

    try:
        return SearchSpace.of(task).sketch(record.sketch_id).describe(record.decisions)
    except TileworkError as error:
        return f"not a schedule of this task: {error}\n"


def _build_here(task: SearchTask, record: Record) -> str:
    """Where building fails: the traceback of a build in this process; empty if it succeeds."""
    import traceback

    from tilework.lower.protocol import builder_of

    try:
        builder_of(task.target).build(task, record.sketch_id, record.decisions)
    except Exception:
        return traceback.format_exc()
    return ""
