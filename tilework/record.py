"""The plain record of one measured candidate, and the small history interface the search reads.

This module owns the types only: `storage` writes records to Parquet, `tilework.measure` fills
them, `tilework.search` and `tilework.runtime` read them through `History`. No pandas, no Arrow.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tilework.frozen import frozen
from tilework.overriding import override
from tilework.target.identity import SAME_SPEED, DeviceIdentity

SCHEMA_VERSION = 4
"""Version of the record's columns. Columns are only ever added, with a new version.

1: all columns but those named below. 2: `purpose`. 3: `FACTS`.
4: `device_id`, `device_calibration_s`.
"""

FACTS = (
    "registers", "spill_bytes", "stack_bytes", "shared_bytes", "blocks_per_sm", "code_bytes",
)  # fmt: skip
"""Columns of what is known of a candidate's code without running it.

A candidate of several kernels has the largest number of any, but of `blocks_per_sm` the smallest.
Machines whose code says no such thing leave them empty: CPUs do.
"""


class Purpose(StrEnum):
    """Why a candidate was measured."""

    search = "search"
    """To find out how fast it is, on its own."""
    final = "final"
    """To choose among the fastest: finalists of one round were timed in turns, and verified."""
    canary = "canary"
    """To see whether machine or kernels became slower: the same few programs, now and then. No
    trial, and never the best."""
    refused = "refused"
    """For none: its code, once built, was refused (`Status.unfit`). Such a record is no trial."""


class Status(StrEnum):
    """How the measurement of one candidate ended."""

    ok = "ok"
    """Built, verified against the reference, timed."""
    rejected = "rejected"
    """The schedule does not belong to the task or breaks a limit: refused before code was made."""
    compile_error = "compile_error"
    """Lowering or code generation failed."""
    unfit = "unfit"
    """Built, and refused before it ran: its code is known to be slow (`error` says why)."""
    launch_error = "launch_error"
    """The code was made but could not be loaded."""
    run_error = "run_error"
    """Running the code raised an error."""
    timeout = "timeout"
    """Building or running took longer than allowed (`error` names the stage)."""
    wrong_answer = "wrong_answer"
    """The output differs from the reference."""
    crashed = "crashed"
    """The worker process died on this candidate (`error` names the stage and the signal)."""
    worker_lost = "worker_lost"
    """The worker process, or its device, was lost, twice, for a reason outside the candidate."""


@frozen
class Record:
    """One measured candidate: the columns of the dataset, in their order.

    Times are in seconds. A quantity that was not reached (the latency of a candidate that did not
    compile) is None, never a magic number. `created_at` is an aware UTC time. `predicted_score` is
    what the model named `model_id` predicted, and no other: throughput relative to the best known
    then. (Older records of learned models hold a blend with the draft model's word.)

    Of a GPU's kernel, `registers` are those of a thread, `spill_bytes` what a thread keeps in
    memory for want of registers, and `stack_bytes` its stack; `shared_bytes` is a block's shared
    memory, `blocks_per_sm` how many blocks a multiprocessor holds at a time, `code_bytes` the
    size of the machine code.
    """

    # identity
    schema_version: int
    record_id: str
    run_id: str
    round: int
    created_at: datetime
    # workload
    workload_key: str
    workload: str
    network: str
    flops: float
    # target
    target: str
    device: str
    host: str
    num_cores: int
    engine_version: str
    # schedule
    sketch_id: int
    rules_version: int
    decisions: tuple[int, ...]
    code_hash: str
    # result
    status: Status
    error: str = ""
    latency_s: float | None = None
    latency_samples: tuple[float, ...] = ()
    latency_spread: float | None = None
    calibration_s: float | None = None
    build_s: float | None = None
    max_rel_error: float | None = None
    # model
    predicted_score: float | None = None
    model_id: str = ""
    # schema version 2
    purpose: Purpose = Purpose.search
    # schema version 3: of a GPU's kernel
    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    blocks_per_sm: int | None = None
    code_bytes: int | None = None
    # schema version 4: which device it was, see `tilework.target.identity`
    device_id: str = ""
    device_calibration_s: float | None = None

    @property
    def facts(self) -> dict[str, float]:
        """Those of `FACTS` that are known."""
        facts = {name: getattr(self, name) for name in FACTS}
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def usable(self) -> bool:
        """Whether the record holds a latency that may be chosen as the best."""
        latency = self.latency_s
        return self.status == Status.ok and latency is not None and 0 < latency < math.inf


def new_writer() -> str:
    """A short random name for a session that writes records.

    Two machines that are alike may work on one run at once: their rounds have equal numbers.
    """
    return secrets.token_hex(4)


def record_id(run_id: str, round: int, writer: str, position: int) -> str:
    """Identity of a record: its run, its round, who wrote that (may be empty), its place in it."""
    return "-".join(filter(None, (run_id, f"{round:06d}", writer, f"{position:04d}")))


def by_age(record: Record) -> tuple[datetime, str, int, str]:
    """A key by which records are sorted, oldest first."""
    return record.created_at, record.run_id, record.round, record.record_id


def writer_of(record: Record) -> str:
    """Who wrote a record, by its id; empty for records from before writers had names."""
    return writer_in(record.record_id, record.run_id, record.round)


def writer_in(record_id: str, run_id: str, round: int) -> str:
    """`writer_of` the record with this id, of this round of this run."""
    middle = record_id.removeprefix(f"{run_id}-{round:06d}-")
    return middle.rpartition("-")[0] if middle != record_id else ""


@runtime_checkable
class History(Protocol):
    """What the search and the compiler read: the measurements of a workload on a target.

    `target` is the canonical target text (`str(target)`); only equal text matches. With a
    `device`, only records that were measured on it count (`DeviceIdentity.owns`); without one all
    do, as for code that is made for another machine.

    `best` and `hints` follow from `of`; who need not read all records for them does it otherwise.
    """

    def best(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> Record | None:
        """The usable record that counts as the best, see `best_of`, or None."""
        return best_of(self.of(workload_key, target, device))

    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        """All records, failures included, in the order in which they were made."""

    def hints(self, workload_key: str, target: str, device: DeviceIdentity | None) -> list[Record]:
        """The best record of each device but this one, the most recent first; None: of each.

        Their schedules are worth trying; their latencies say nothing here.
        """
        return best_elsewhere(self.of(workload_key, target), device)


@runtime_checkable
class RecordLog(History, Protocol):
    """A history that a tuning run also writes to, one whole round at a time."""

    def append(self, records: Iterable[Record]) -> None:
        """Keeps the records of a round. Appending the same round again changes nothing."""

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether this round of this run was appended."""


@runtime_checkable
class WorkloadLog(History, Protocol):
    """A history that also keeps what its workloads compute, so that others can learn from it.

    A workload's document is the JSON text of its compute DAG (`tilework.te.serial`).
    """

    def keep_workload(self, workload_key: str, document: str) -> None:
        """Keeps the document of a workload; one that is kept already is left as it is."""

    def workload(self, workload_key: str) -> str | None:
        """The document of a workload, or None."""

    def workload_keys(self, target: str) -> list[str]:
        """The workloads that have records of this target, sorted."""


@runtime_checkable
class Catalogue(History, Protocol):
    """A history that tells what it has records of, so that other targets can be asked for."""

    def keys(self) -> list[tuple[str, str]]:
        """The (target, workload key) of all records, sorted."""


@runtime_checkable
class ModelLog(Protocol):
    """A history that also keeps learned cost models, one of each kind of machine as its champion.

    A model is the text that `tilework.model.XGBModel.to_json` writes.
    """

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """The document of the model that searches for machines of a kind begin with, or None.

        Args:
            kind: of the machine: `Target.kind`.
            target: canonical text of what is searched for; None also where the champion was not
                shown to be of use there.
        """


@runtime_checkable
class Stated(History, Protocol):
    """A history that can tell whether it would answer as it did."""

    def state(self) -> str | None:
        """Equal texts mean equal answers, also in another process; None where nobody can tell."""


@runtime_checkable
class Knowing(History, Protocol):
    """A history that tells at once whether it can have a say."""

    def knows(self, workload_key: str, kind: str) -> bool:
        """Whether it has records of a workload, or a learned model of a kind of machine."""


@runtime_checkable
class Layered(History, Protocol):
    """Several histories, asked as one: see `layers_of`."""

    @property
    def layers(self) -> tuple[History, ...]:
        """The histories; what an earlier one says of other devices goes before a later one."""


def layers_of(history: History) -> tuple[History, ...]:
    """The histories that one is made of, or the history alone, the first to be asked first.

    For questions whose answers do not compare: which of several devices' bests to go by. The best
    of one device is asked of the whole.
    """
    return history.layers if isinstance(history, Layered) else (history,)


def best_of(records: Iterable[Record]) -> Record | None:
    """The best record: the winner of the last finals, unless a later record is faster.

    The lowest of many single latencies is mostly a lucky one. Finals time the fastest candidates
    in turns, and their verdict replaces what was measured before: of the records of the same
    machine that are older than the last finals, only the winner counts. (Records of before devices
    had ids are of the machine that has their device's name.) Without finals, the usable record of
    lowest latency is the best. Ties are broken by `record_id`; None if none is usable.
    """
    return min(contenders(records), key=_rank, default=None)


def contenders(records: Iterable[Record]) -> list[Record]:
    """The usable records that `best_of` compares: those of the last finals, and later ones."""
    usable = [r for r in records if r.usable and r.purpose != Purpose.canary]
    last: dict[tuple[str, str], Record] = {}
    for record in usable:
        if record.purpose == Purpose.final:
            for voice in _speaks_for(record):
                known = last.get(voice)
                if known is None or record.created_at > known.created_at:
                    last[voice] = record
    if not last:
        return usable
    kept = []
    for record in usable:
        verdict = _verdict(record, last)
        later = verdict is None or record.created_at > verdict.created_at
        if later or (record.purpose == Purpose.final and _round(record) == _round(verdict)):
            kept.append(record)
    return kept


def _speaks_for(final: Record) -> list[tuple[str, str]]:
    """Whose earlier records finals replace: their device's.

    And those of before devices had ids that were made on one of this name: else what was lucky
    then could never be overruled.
    """
    own = ("machine", _machine(final))
    return [own, ("name", final.device)] if final.device_id else [own]


def _verdict(record: Record, last: dict[tuple[str, str], Record]) -> Record | None:
    """The last finals that speak for a record."""
    by_machine = last.get(("machine", _machine(record)))
    by_name = None if record.device_id else last.get(("name", record.device))
    if by_machine is None or by_name is None:
        return by_machine or by_name
    return by_name if by_name.created_at > by_machine.created_at else by_machine


def best_elsewhere(records: Iterable[Record], device: DeviceIdentity | None) -> list[Record]:
    """The best record of each device but this one, the most recent first: see `History.hints`."""
    others = [record for record in records if device is None or not device.owns(record)]
    bests = [best for rows in by_device(others) if (best := best_of(rows)) is not None]
    return sorted(bests, key=lambda record: (record.created_at, record.record_id), reverse=True)


def latest_word(bests: Iterable[Record]) -> Record | None:
    """Which of several devices' best records to go by: where finals were held, and lately."""
    return max(bests, key=_voice, default=None)


def _voice(record: Record) -> tuple[bool, datetime, str]:
    return record.purpose == Purpose.final, record.created_at, record.record_id


def by_device(records: Iterable[Record]) -> list[list[Record]]:
    """Records whose latencies may be compared, device by device, each in the given order."""
    machines: dict[str, list[Record]] = {}
    for record in records:
        machines.setdefault(_machine(record), []).append(record)
    return [rows for alike in machines.values() for rows in _by_speed(alike)]


def _by_speed(records: list[Record]) -> list[list[Record]]:
    """Records of devices with equal facts, those of each speed apart; see `SAME_SPEED`."""
    speeds = sorted({record.device_calibration_s or 0.0 for record in records})
    first, groups = dict[float, float](), dict[float, list[Record]]()
    for number, speed in enumerate(speeds):
        known = first[speeds[number - 1]] if number else math.nan
        same = known == 0.0 if speed == 0.0 else known > 0.0 and speed < SAME_SPEED * known
        first[speed] = known if same else speed
    for record in records:
        groups.setdefault(first[record.device_calibration_s or 0.0], []).append(record)
    return list(groups.values())


def _machine(record: Record) -> str:
    """What the latencies of a record are comparable within; hosts stood for devices once."""
    return record.device_id or record.host


def _round(record: Record | None) -> tuple[str, int, str] | None:
    return None if record is None else (record.run_id, record.round, writer_of(record))


def _rank(record: Record) -> tuple[float, str]:
    return (math.inf if record.latency_s is None else record.latency_s, record.record_id)


class MemoryHistory(Catalogue, WorkloadLog):
    """A `RecordLog` in memory: for tests, dry runs and searches whose records are not kept."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_key: dict[tuple[str, str], dict[str, Record]] = {}
        self._rounds: set[tuple[str, int]] = set()
        self._documents: dict[str, str] = {}
        self._champions: dict[str, str] = {}
        self.append(records)

    def append(self, records: Iterable[Record]) -> None:
        """Adds records; one whose `record_id` is known already is left as it is."""
        for record in records:
            rows = self._by_key.setdefault((record.workload_key, record.target), {})
            rows.setdefault(record.record_id, record)
            self._rounds.add((record.run_id, record.round))

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether any record of this round of this run was appended."""
        return (run_id, round) in self._rounds

    @override
    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        records = self._by_key.get((workload_key, target), {}).values()
        return [record for record in records if device is None or device.owns(record)]

    @override
    def keep_workload(self, workload_key: str, document: str) -> None:
        self._documents.setdefault(workload_key, document)

    @override
    def workload(self, workload_key: str) -> str | None:
        return self._documents.get(workload_key)

    @override
    def workload_keys(self, target: str) -> list[str]:
        return sorted(key for key, where in self._by_key if where == target)

    @override
    def keys(self) -> list[tuple[str, str]]:
        return sorted((target, key) for key, target in self._by_key)

    def keep_champion(self, kind: str, document: str) -> None:
        """From now on searches for machines of this kind begin with this model."""
        self._champions[kind] = document

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """See `ModelLog.champion`; here one serves every target."""
        return self._champions.get(kind)

    def read(self) -> list[Record]:
        """All records, by workload and target, each group in the order of appending."""
        return [record for rows in self._by_key.values() for record in rows.values()]
