"""The record store: a directory of immutable Parquet files, one per tuning round."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from storage.documents import Documents, OldForm
from storage.files import Location
from storage.names import text_name
from storage.schema import NotRecords, check_schema, from_table, to_table
from tilework.errors import StoreError
from tilework.record import Record, best_elsewhere, best_of

if TYPE_CHECKING:
    import pandas as pd

    from tilework.target.identity import DeviceIdentity

ROUND = "round-"
"""Files of whole rounds begin with this; others, such as a distilled one, hold parts of rounds."""

DISTILLED = "distilled.parquet"
_REMOTE_REFRESH_S = 5.0


class RecordStore:
    """Records in a dataset directory, and the queries that tuning and compiling need.

    Each `append` adds one file, whole or not at all; files are never changed afterwards, so that
    two stores are merged by copying files and any number of processes may write. `pd.read_parquet`
    of the directory, or of the store itself, gives one row per measurement. Files and folders
    whose names begin with `.` or `_` are not records. Reading a store executes nothing that it
    contains.

    A store object may be shared by threads.

    Attributes:
        problems: one line for each file, or kind of row, that is present and not used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rules_version: int | Callable[[str], int | None] | None = None,
        engine_version: str | None = None,
        filesystem: pafs.FileSystem | None = None,
    ) -> None:
        """Opens a store; nothing is created before the first append.

        Args:
            path: a directory, or a URI of any filesystem that Arrow opens.
            rules_version: if given, `best` and `of` use only rows whose schedules were derived by
                this version of the rules (the decisions of other versions mean something else).
                Each kind of machine has rules of its own: a function tells the version by the
                text of a row's target, or None where such targets are unknown.
            engine_version: if given, `best` and `of` use only rows of this engine version.
            filesystem: an open Arrow filesystem, in which `path` lies.

        Raises:
            StoreError: the URI cannot be opened.
        """
        self._location = Location.of(path, filesystem)
        self._workloads = Documents(self._location, "workloads", OLD_WORKLOADS)
        self._models = Documents(self._location, "models", OLD_MODELS)
        self._goals = Documents(self._location, "goals")
        self._rules_version = rules_version
        self._engine_version = engine_version
        self._lock = threading.RLock()
        self._stamps: dict[str, tuple[int, int]] = {}
        self._files: dict[str, list[Record]] = {}
        self._bad: dict[str, str] = {}
        self._index: dict[tuple[str, str], dict[str, Record]] = {}
        self._best: dict[tuple[str, str], Record | None] = {}
        self._rounds: set[tuple[str, int]] = set()
        self._refuse: Counter[str] = Counter()
        self._listed_at = -1e9

    def __repr__(self) -> str:
        return f"RecordStore({self._location.text!r})"

    def __fspath__(self) -> str:
        return self._location.text

    @property
    def path(self) -> str:
        """The path or URI, as it was given."""
        return self._location.text

    @property
    def problems(self) -> list[str]:
        """One line for each file, or kind of row, that is present and not used."""
        with self._lock:
            self._refresh()
            unused = [f"{self.path}: {n} rows {why}" for why, n in sorted(self._refuse.items())]
            bad = [self._bad[name] for name in sorted(self._bad)]
            return bad + unused + self._workloads.problems + self._models.problems

    def check_writable(self) -> None:
        """Creates the directory and proves that records can be appended.

        Raises:
            StoreError: they cannot; the message names the path, the cause and what to do.
        """
        self._location.check_writable()

    def append(self, records: Iterable[Record]) -> None:
        """Writes the records of a round as one file, durably, before returning.

        A round that the store has already is left as it is; a file of this round that cannot be
        read is replaced. (Records of several rounds give one file per round.)

        Raises:
            StoreError: the store cannot be written; no part of the round is left behind.
        """
        rounds: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            rounds.setdefault((record.run_id, record.round), []).append(record)
        with self._lock:
            self._refresh(force=True)
            new = {key: rows for key, rows in rounds.items() if key not in self._rounds}
            for (run_id, round), rows in new.items():
                self._location.write(file_name(run_id, round), _encode(rows))
            if new:
                self._refresh(force=True)

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether this round of this run is in the store."""
        with self._lock:
            self._refresh()
            return (run_id, round) in self._rounds

    def best(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> Record | None:
        """See `tilework.record.History.best`."""
        if device is not None:
            return best_of(self.of(workload_key, target, device))
        with self._lock:
            self._refresh()
            key = (workload_key, target)
            if key not in self._best:
                self._best[key] = best_of(self._index.get(key, {}).values())
            return self._best[key]

    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        """See `tilework.record.History.of`."""
        with self._lock:
            self._refresh()
            found = self._index.get((workload_key, target), {}).values()
            return sorted((r for r in found if device is None or device.owns(r)), key=_order)

    def hints(self, workload_key: str, target: str, device: DeviceIdentity | None) -> list[Record]:
        """See `tilework.record.History.hints`."""
        return best_elsewhere(self.of(workload_key, target), device)

    def keep_workload(self, workload_key: str, document: str) -> None:
        """See `tilework.record.WorkloadLog.keep_workload`.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            if self.workload(workload_key) is None:
                self._workloads.keep(text_name(workload_key), document)

    def workload(self, workload_key: str) -> str | None:
        """See `tilework.record.WorkloadLog.workload`."""
        with self._lock:
            return _text(self._workloads.read(text_name(workload_key)))

    def keep_model(self, target: str, document: str) -> None:
        """Keep the learned cost model of a target (`XGBModel.to_json`), in place of an older one.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            self._models.keep(text_name(target), document)

    def model(self, target: str) -> str | None:
        """The document of the learned cost model of a target, or None."""
        with self._lock:
            return _text(self._models.read(text_name(target)))

    def keep_goal(self, run_id: str, goal: dict[str, Any]) -> None:
        """Keep where a run's present goal begins, in place of what was kept before.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            self._goals.keep(text_name(run_id), json.dumps(goal))

    def goal(self, run_id: str) -> dict[str, Any] | None:
        """What `keep_goal` kept for the run last, or None."""
        with self._lock:
            text = _text(self._goals.read(text_name(run_id)))
        if text is None:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def workload_keys(self, target: str) -> list[str]:
        """See `tilework.record.WorkloadLog.workload_keys`."""
        with self._lock:
            self._refresh()
            return sorted(key for key, where in self._index if where == target)

    def read(self) -> list[Record]:
        """All readable records, whatever their version and target, oldest first."""
        with self._lock:
            self._refresh()
            by_id = {r.record_id: r for rows in self._files.values() for r in rows}
            return sorted(by_id.values(), key=_order)

    def frame(self) -> pd.DataFrame:
        """All readable records as a pandas table, one row each, oldest first."""
        return to_table(self.read()).to_pandas()

    def distill(self, out: str | os.PathLike[str]) -> RecordStore:
        """Writes the best record of each (workload, target) to another store.

        What `out` holds already takes part, so that several stores may be distilled into one.

        Returns:
            The store at `out`.

        Raises:
            StoreError: `out` cannot be written, or is this store.
        """
        other = RecordStore(
            out, rules_version=self._rules_version, engine_version=self._engine_version
        )
        if other._location.path == self._location.path:
            raise StoreError(f"cannot distil the store {self.path!r} into itself: name another")
        with self._lock:
            self._refresh(force=True)
            keys = set(self._index) | set(other._keys())
            # all of ours: a final of ours may speak against a record that was distilled earlier
            found = [[*self.of(*key), other.best(*key)] for key in sorted(keys)]
        best = [best_of(r for r in rows if r is not None) for rows in found]
        other._location.write(DISTILLED, _encode([r for r in best if r is not None]))
        other._refresh(force=True)
        return other

    def _keys(self) -> list[tuple[str, str]]:
        with self._lock:
            self._refresh(force=True)
            return list(self._index)

    def _refresh(self, *, force: bool = False) -> None:
        """Reads the files that are new or changed since the last look; forgets those gone."""
        now = time.monotonic()
        if not force and not self._location.local and now - self._listed_at < _REMOTE_REFRESH_S:
            return
        stamps = self._location.list()
        self._listed_at = now
        if stamps == self._stamps:
            return
        gone = [name for name, stamp in self._stamps.items() if stamps.get(name) != stamp]
        fresh = [name for name, stamp in stamps.items() if self._stamps.get(name) != stamp]
        for name in gone:
            self._files.pop(name, None)
            self._bad.pop(name, None)
        for name in fresh:
            self._load(name)
        self._stamps = stamps
        if gone:
            self._index, self._rounds, self._refuse = {}, set(), Counter()
        self._best = {}
        for name in sorted(self._files if gone else set(fresh) & set(self._files)):
            self._enter(self._files[name], whole_round=name.split("/")[-1].startswith(ROUND))

    def _load(self, name: str) -> None:
        path = self._location.join(name)
        try:
            with pq.ParquetFile(
                path, filesystem=self._location.filesystem, page_checksum_verification=True
            ) as file:
                check_schema(file.schema_arrow)
                self._files[name] = from_table(file.read())
        except FileNotFoundError:
            return
        except NotRecords as error:
            self._bad[name] = f"{path}: not used: {error}"
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            self._bad[name] = f"{path}: not used: it cannot be read as Parquet ({reason})"

    def _enter(self, rows: list[Record], *, whole_round: bool) -> None:
        for row in rows:
            if whole_round:
                self._rounds.add((row.run_id, row.round))
            reason = self._reason_to_refuse(row)
            if reason:
                self._refuse[reason] += 1
            else:
                key = (row.workload_key, row.target)
                self._index.setdefault(key, {}).setdefault(row.record_id, row)

    def _reason_to_refuse(self, row: Record) -> str:
        asked = self._rules_version
        version = asked(row.target) if callable(asked) else asked
        if version is None and asked is not None:
            return f"not used: of target {row.target}, which this Tilework does not know"
        if version is not None and row.rules_version != version:
            return f"not used: rules version {row.rules_version}, not {version}"
        if self._engine_version is not None and row.engine_version != self._engine_version:
            return f"not used: engine version {row.engine_version}, not {self._engine_version}"
        return ""


def file_name(run_id: str, round: int) -> str:
    """The file of a round. Different run ids give different names, odd characters included."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", run_id)[:80]
    if plain != run_id:
        plain += "-" + hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{ROUND}{plain}-{round:06d}.parquet"


def _old_workload(stem: str, found: dict[str, object]) -> str:
    if text_name(str(found["workload_key"])) != stem or not isinstance(found["dag"], str):
        raise ValueError("it describes another workload")
    return found["dag"]


def _old_model(stem: str, found: dict[str, object]) -> str:
    if text_name(str(found["target"])) != stem:
        raise ValueError("it belongs to another target")
    return json.dumps(found["model"])


OLD_WORKLOADS, OLD_MODELS = OldForm(_old_workload), OldForm(_old_model)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode()


def _order(record: Record) -> tuple[object, ...]:
    return (record.created_at, record.run_id, record.round, record.record_id)


def _encode(records: list[Record]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(records), sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())
