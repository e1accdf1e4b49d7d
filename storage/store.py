"""The record store: a directory of immutable Parquet files, one for each tuning round."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from storage import trials
from storage.cards import ModelError
from storage.dataset import Dataset
from storage.documents import Documents
from storage.files import Location
from storage.known import KnownKeys, Rules
from storage.models import Models
from storage.names import RoundName, text_name
from storage.operations import KIND as WORKLOADS
from storage.operations import Operations
from storage.schema import to_table
from storage.tables import encode
from storage.upgrade import OLD_FORMS
from tilework.overriding import override
from tilework.record import Record, WorkloadLog, best_elsewhere, best_of, by_age
from tilework.trials import TrialLog

if TYPE_CHECKING:
    from tilework.target.identity import DeviceIdentity
    from tilework.trials import Trials

_FEW_FILES = 3


class RecordStore(Dataset, WorkloadLog, TrialLog):
    """Records in a dataset directory, and the queries that tuning and compiling need.

    Opening a store reads nothing; a query reads the files that it needs, once. Each `append` adds
    files that are never changed afterwards, so that two stores are merged by copying files and any
    number of processes may write, read and compact at the same time. A record counts once,
    whatever files it stands in. `pd.read_parquet` of the directory, or of the store itself, gives
    one row per measurement. Reading a store executes nothing that it contains, and writes nothing.

    Rows that no measurement can give (`storage.plausible`) are told by `problems`, never chosen.

    Every question raises `StoreBusy` if the store cannot be read now, and `StoreError` if somebody
    has to mend something first. A store object may be shared by threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rules_version: int | Callable[[str], int | None] | None = None,
        filesystem: pafs.FileSystem | None = None,
        must_exist: bool = False,
    ) -> None:
        """Opens a store; nothing is created before the first append.

        Args:
            path: a directory, or a URI of any filesystem that Arrow or fsspec opens.
            rules_version: if given, `best`, `of` and `hints` use only rows whose schedules were
                derived by this version of the rules (the decisions of other versions mean
                something else). Each kind of machine has rules of its own: a function tells the
                version by the text of a row's target, or None where such targets are unknown.
            filesystem: an open Arrow filesystem, in which `path` lies.
            must_exist: a missing store is an error: for what only reads.

        Raises:
            StoreError: the URI cannot be opened, or there is no store and `must_exist`.
        """
        super().__init__(path, filesystem, must_exist=must_exist)
        self._lock, self._index = self._reading.lock, self._reading.index
        self._documents: dict[str, Documents] = {}
        self._operations = Operations(self.documents(WORKLOADS))
        self._known = KnownKeys(self._index, Rules(rules_version, self._operations.of))
        self._reading.forget = self._known.forget
        self._unusable = ""

    @property
    def problems(self) -> list[str]:
        """One line for each file, or kind of row, that was met so far and is not used.

        Many files with one reason, as in a store of a newer Tilework, share a line. Files whose
        names say nothing are looked at for this; a full look is `tilework records check`.
        """

        def lines() -> list[str]:
            rows = [f"{self.path}: {n} rows {why}" for why, n in self._known.refused().items()]
            return _unused_files(self.location, self._index.bad) + rows

        said = self._reading.ask(lines)
        kinds = list(self._documents.values())
        said += [line for documents in kinds for line in documents.problems]
        known = any(self._unusable.endswith(line) for line in said)
        return said + ([self._unusable] if self._unusable and not known else [])

    def check_writable(self) -> None:
        """Creates the directory and proves that records can be appended.

        Raises:
            StoreError: they cannot; the message names the path, the cause and what to do.
        """
        self.location.check_writable()

    def append(self, records: Iterable[Record]) -> None:
        """Writes records durably before returning: one file for each round and task.

        Records that were appended before are left as they are. The first append to a store of an
        older version rewrites that in the present form.

        Raises:
            StoreError: the store cannot be written; every file is there whole or not at all.
        """
        rounds: dict[tuple[str, int, str, str], list[Record]] = {}
        for record in records:
            of = (record.run_id, record.round, record.workload_key, record.target)
            rounds.setdefault(of, []).append(record)
        with self._lock:
            if rounds:
                self._reading.upgrade()
            for of, rows in rounds.items():
                name = str(RoundName.of(*of, [row.record_id for row in rows]))
                self._reading.write(name, encode(to_table(rows)))

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether any records of this round of this run are in the store."""
        return self._reading.ask(lambda: self._index.has_round(run_id, round))

    @override
    def best(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> Record | None:
        return self._reading.ask(
            lambda: best_of(self._own(workload_key, target, device, decide=True))
        )

    @override
    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        return self._reading.ask(lambda: self._own(workload_key, target, device))

    @override
    def hints(self, workload_key: str, target: str, device: DeviceIdentity | None) -> list[Record]:
        return self._reading.ask(
            lambda: best_elsewhere(self._own(workload_key, target, None, decide=True), device)
        )

    def documents(self, kind: str) -> Documents:
        """The documents of a kind that the store keeps beside the records."""
        with self._lock:
            if kind not in self._documents:
                self._documents[kind] = Documents(self.location, kind, OLD_FORMS.get(kind))
            return self._documents[kind]

    def keep_workload(self, workload_key: str, document: str) -> None:
        """See `tilework.record.WorkloadLog.keep_workload`.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            if self.workload(workload_key) is None:
                self.documents(WORKLOADS).keep(text_name(workload_key), document)

    @override
    def workload(self, workload_key: str) -> str | None:
        with self._lock:
            content = self.documents(WORKLOADS).read(text_name(workload_key))
            return None if content is None else content.decode()

    @override
    def workload_keys(self, target: str) -> list[str]:
        return [workload_key for where, workload_key in self.keys() if where == target]

    def operations(self, workload_key: str) -> float | None:
        """Operations of a workload; None if the store does not know what it computes."""
        with self._lock:
            return self._operations.of(workload_key)

    @property
    def models(self) -> Models:
        """The registry of learned cost models; see `storage.models`."""
        return Models(self.documents, self.path)

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """See `tilework.record.ModelLog.champion`; one that cannot be used is among `problems`."""
        self._unusable = ""
        try:
            return self.models.champion(kind, target)
        except ModelError as error:
            self._unusable = str(error)
            return None

    @override
    def trials(self, target: str, workload_keys: Collection[str]) -> Iterator[Trials]:
        keys = [(target, key) for key in workload_keys]
        for table in self.scan(trials.COLUMNS, keys=keys):
            yield from trials.split(table)

    def _own(
        self, workload_key: str, target: str, device: DeviceIdentity | None, decide: bool = False
    ) -> list[Record]:
        key = (target, workload_key)
        if decide:
            records = self._known.deciding(key, self.documents("best"))
        else:
            records = sorted(self._known.all(key), key=by_age)
        return [row for row in records if device is None or device.owns(row)]


def _unused_files(place: Location, bad: Mapping[str, str]) -> list[str]:
    """A line for each file, or for all that are unused for one reason if these are many."""
    alike: dict[str, list[str]] = {}
    for name in sorted(bad):
        alike.setdefault(bad[name], []).append(name)
    lines = []
    for reason, names in alike.items():
        if len(names) > _FEW_FILES:
            many = f"{len(names)} files not used, the first of them {names[0]}"
            lines.append(f"{place.text}: {many}: {reason}")
        else:
            lines += [f"{place.join(name)}: not used: {reason}" for name in names]
    return lines
