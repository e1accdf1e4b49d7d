"""The few records of a key that decide what is best, so that nobody reads the others.

Of a key's records (those of a workload on a target) only a few can ever be the best: on each
device and for each version of the rules the winner of the last finals, and records that were
measured after these and are faster than all that came later. `deciding` picks them. `best_of` and
`best_elsewhere` over these and any newer records say the same as over all records and the newer
ones, for any one device and any version of the rules.

They are kept in documents of kind `best`: 256 of them, each for the keys whose short name begins
with the same two digits. A document says of each key which rounds it has looked at, so that a
reader looks only at the others. It is a cache: where one is missing, damaged or behind, the
records themselves are read.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.compacts import sort_rows, split_keys
from storage.documents import Documents
from storage.plausible import believable
from storage.schema import SCHEMA, conform, from_table
from tilework.record import Purpose, Record, Status, writer_in

KIND = "best"
_COVERS_KEY = b"tilework.covers"
_TIES = ("created_at", "run_id", "round", "record_id")
_LIGHT = [
    *_TIES, "workload_key", "target", "rules_version", "device_id", "device", "host",
    "device_calibration_s", "calibration_s", "latency_s", "purpose",
]  # fmt: skip


@dataclass(frozen=True)
class Best:
    """What is kept of one key.

    Attributes:
        rows: the deciding records, a table of `SCHEMA`.
        covers: names of the rounds that were looked at.
    """

    rows: pa.Table
    covers: frozenset[str]

    @property
    def records(self) -> list[Record]:
        """The deciding records."""
        return from_table(self.rows)


class Bests:
    """The documents of a store's bests."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def of(self, workload_key: str, target: str) -> Best | None:
        """What is kept of a key; None if nothing is, or nothing that can be read."""
        name = key_name(workload_key, target)
        return self.shard(shard_of(name)).get(name)

    def shard(self, shard: str) -> dict[str, Best]:
        """What one document keeps, by `key_name`; empty if there is none that can be read."""
        content = self._documents.read(shard)
        if content is None:
            return {}
        try:
            return _decode(content)
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException):
            return {}

    def keep(self, shard: str, bests: Mapping[str, Best]) -> None:
        """Writes one document, in place of an older one."""
        if bests:
            self._documents.keep(shard, _encode(bests), durable=False)
        else:
            self._documents.remove(shard)

    def shards(self) -> list[str]:
        """The names of all documents."""
        return self._documents.names()


def key_name(workload_key: str, target: str) -> str:
    """The name by which documents know a key. It begins with `storage.names.key_part`."""
    return hashlib.sha256(f"{workload_key}\n{target}".encode()).hexdigest()[:16]


def shard_of(name: str) -> str:
    """The name of the document that keeps a key, from its `key_name` or `key_part`."""
    return name[:2]


def deciding(rows: pa.Table) -> pa.Table:
    """Those rows of any number of keys that can decide what is best: see the module's text.

    Rows with one id twice count once; the result is sorted like a compacted file.
    """
    usable = np.flatnonzero(_usable(rows).to_numpy())
    light = rows.select(_LIGHT).take(pa.array(usable)).combine_chunks()
    order = pc.sort_indices(light, [(name, "ascending") for name in _TIES]).to_numpy()
    codes = light.column("record_id").combine_chunks().dictionary_encode().indices.to_numpy()
    order = order[np.sort(np.unique(codes[order], return_index=True)[1])]  # each id once
    light = light.take(pa.array(order))
    group = _groups(light)
    by_group = np.argsort(group, kind="stable")  # within a group by time
    decides = _decides(light.take(pa.array(by_group)), group[by_group])
    return sort_rows(rows.take(pa.array(usable[order[by_group[decides]]])))


def _usable(rows: pa.Table) -> pa.ChunkedArray:
    """`Record.usable`, believable and not a canary, for each row."""
    latency = pc.fill_null(rows.column("latency_s"), 0.0)
    timed = pc.and_(pc.greater(latency, 0.0), pc.is_finite(latency))
    counts = pc.not_equal(rows.column("purpose"), Purpose.canary.value)
    fine = pc.and_(pc.equal(rows.column("status"), Status.ok.value), pa.array(believable(rows)))
    return pc.and_(pc.and_(timed, counts), fine)


def _groups(rows: pa.Table) -> np.ndarray:
    """A number for each row: equal where key, rules and device are the same.

    `DeviceIdentity.owns` takes all of a group or nothing of it: rows without an id of a device are
    told apart by its name, and by the calibration of their batch.
    """
    known = pc.not_equal(rows.column("device_id"), "")
    parts = [
        rows.column("workload_key"),
        rows.column("target"),
        rows.column("rules_version"),
        rows.column("device_id"),
        rows.column("device"),
        pc.if_else(known, "", rows.column("host")),
        pc.if_else(known, rows.column("device_calibration_s"), rows.column("calibration_s")),
    ]
    group = np.zeros(len(rows), np.int64)
    if not len(rows):
        return group
    for part in parts:
        array = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        codes = pc.fill_null(array.dictionary_encode().indices, -1).to_numpy() + 1
        joined = group * (int(codes.max()) + 1) + codes
        group = np.unique(joined, return_inverse=True)[1]
    return group


def _decides(rows: pa.Table, group: np.ndarray) -> np.ndarray:
    """Which rows decide, of usable rows sorted by group and then by time."""
    if not len(rows):
        return np.zeros(0, bool)
    rank = _rank(rows)
    number = np.arange(len(rows))
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    size = np.diff(np.r_[first, len(rows)])
    time = rows.column("created_at").cast(pa.int64()).to_numpy()
    final = pc.equal(rows.column("purpose"), Purpose.final.value).to_numpy(zero_copy_only=False)

    # the last finals: of those made at the latest time the one that comes first
    latest = np.maximum.reduceat(np.where(final, time, np.iinfo(np.int64).min), first)
    is_verdict = final & (time == np.repeat(latest, size))
    verdict = np.minimum.reduceat(np.where(is_verdict, number, len(rows)), first)
    held = np.repeat(verdict, size)  # len(rows): no finals in this group
    has = held < len(rows)
    at = np.where(has, held, 0)
    session = _sessions(rows, final)
    same = has & final & (session == session[at])
    later = ~has | (time > time[at])

    winner = np.minimum.reduceat(np.where(same, rank, len(rows)), first)
    keep = same & (rank == np.repeat(winner, size))
    keep |= has & (number == held)
    # of later rows those that are better than all behind them: whatever finals are to come, the
    # best of the rows behind these is among them. A running minimum from the end must see nothing
    # of the groups behind: they are lifted above those before.
    lifted = np.where(later, rank, len(rows)) + group * (len(rows) + 1)
    keep |= later & (lifted == np.minimum.accumulate(lifted[::-1])[::-1])
    return np.asarray(keep)


def _sessions(rows: pa.Table, final: np.ndarray) -> np.ndarray:
    """A number for each of the ``final`` rows: equal where run, round and writer are."""
    few = rows.select(["run_id", "round", "record_id"]).filter(pa.array(final))
    numbers: dict[tuple[str, int, str], int] = {}
    sessions = np.full(len(rows), -1)
    sessions[final] = [
        numbers.setdefault((run, round, writer_in(name, run, round)), len(numbers))
        for run, round, name in zip(*(column.to_pylist() for column in few.columns), strict=True)
    ]
    return sessions


def _rank(rows: pa.Table) -> np.ndarray:
    """Places by latency, ties by id: what `best_of` takes the least of."""
    order = pc.sort_indices(rows, [("latency_s", "ascending"), ("record_id", "ascending")])
    rank = np.empty(len(rows), np.int64)
    rank[order.to_numpy()] = np.arange(len(rows))
    return rank


def _encode(bests: Mapping[str, Best]) -> bytes:
    covers = {name: sorted(best.covers) for name, best in sorted(bests.items())}
    rows = pa.concat_tables([SCHEMA.empty_table(), *(best.rows for best in bests.values())])
    metadata = {**(SCHEMA.metadata or {}), _COVERS_KEY: json.dumps(covers).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(metadata), sink, compression="zstd")
    return bytes(sink.getvalue())


def _decode(content: bytes) -> dict[str, Best]:
    rows = pq.read_table(io.BytesIO(content))
    covers = json.loads(rows.schema.metadata[_COVERS_KEY])
    rows = conform(rows.replace_schema_metadata(SCHEMA.metadata))
    by_name = {key_name(key[1], key[0]): part for key, part in split_keys(rows)}
    empty = SCHEMA.empty_table()
    return {name: Best(by_name.get(name, empty), frozenset(c)) for name, c in covers.items()}
