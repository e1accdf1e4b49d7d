"""Which kernels the canary times: a few of the best that a store knows of this device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.measure import Candidate
    from tilework.record import Record
    from tilework.target import Target
    from tilework.target.identity import DeviceIdentity
    from tilework.task import SearchTask

COUNT = 3
"""Kernels: more would say little more of a machine, and take longer."""
SHORTEST_S, LONGEST_S = 20e-6, 5e-3
"""Kernels that are timed well and soon: from the latencies of these, if there are any."""
MOST_FLOPS = 2e9
"""A larger task takes long to verify."""
LOOKED_AT = 200
"""Workloads looked at in a large store; their keys are hashes, so that the first are any."""


@dataclass(frozen=True)
class Canary:
    """A frozen kernel: always the same program, whatever the search finds later.

    Attributes:
        name: id of the record that it was chosen by.
        workload: description for people.
        row: the decisions of its schedule.
        code_hash: of the code that was timed last; another one means that the compiler changed.
    """

    name: str
    workload_key: str
    workload: str
    sketch_id: int
    row: tuple[int, ...]
    rules_version: int
    code_hash: str = ""

    @staticmethod
    def of(record: Record) -> Canary:
        """The program of a record."""
        return Canary(
            record.record_id,
            record.workload_key,
            record.workload,
            record.sketch_id,
            record.decisions,
            record.rules_version,
            record.code_hash,
        )

    def candidate(self) -> Candidate:
        """The program, to be measured."""
        from tilework.measure import Candidate

        return Candidate(self.sketch_id, self.row, 0.0, "")


def freeze(store: RecordStore, target: Target, device: DeviceIdentity) -> tuple[Canary, ...]:
    """A few of the best kernels of this device, from slow to fast; none if it has no records.

    They are spread over the latencies that are there, so that they lean on different parts of the
    machine: short kernels on caches, long ones on memory.
    """
    from tilework.space import space_of

    rules = space_of(target).version
    records = []
    for key in sorted(store.workload_keys(str(target)))[:LOOKED_AT]:
        record = store.best(key, str(target), device)
        if record is not None and record.rules_version == rules and store.workload(key):
            records.append(record)
    return tuple(Canary.of(record) for record in _spread(_handy(records, COUNT), COUNT))


def task_of(store: RecordStore, canary: Canary, target: Target) -> SearchTask | None:
    """What a frozen kernel computes; None if the store does not keep it any more."""
    from tilework.task import SearchTask, rules_of
    from tilework.te.serial import dag_from_json

    document = store.workload(canary.workload_key)
    if document is None:
        return None
    rules = rules_of(canary.workload_key)
    return SearchTask(dag_from_json(document), target, canary.workload, rules=rules)


def _handy(records: Sequence[Record], count: int) -> list[Record]:
    """The records of kernels that are timed well and verified soon; all if those are too few."""

    def fits(record: Record) -> bool:
        short = SHORTEST_S <= (record.latency_s or math.inf) <= LONGEST_S
        return short and record.flops <= MOST_FLOPS

    handy = [record for record in records if fits(record)]
    return handy if len(handy) >= count else list(records)


def _spread(records: Sequence[Record], count: int) -> list[Record]:
    """So many, evenly from the slowest to the fastest."""
    ranked = sorted(records, key=lambda r: (-(r.latency_s or 0.0), r.record_id))
    if len(ranked) <= count:
        return ranked
    if count == 1:
        return [ranked[len(ranked) // 2]]
    return [ranked[round(i * (len(ranked) - 1) / (count - 1))] for i in range(count)]
