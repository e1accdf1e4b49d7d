"""Compacted files: the records of many rounds in one file, found by key without reading it all.

Rows are sorted by target, workload, time and id. A row group holds some 10,000 rows: many whole
keys (a workload on a target), or a part of one that is larger; the footer's statistics of the two
columns say which. (A row group for each key would make a footer of 11 MB per million rows.)

The footer names the files that a compacted file replaces: all rounds whose rows it holds, also
those that it has from compacted files before it, and the compacted files it was made of. A file
that is named in the footer of another one that is present is *replaced*: its rows are counted
already. No two files can name each other, because a name is a hash of what it replaces.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.keys import Key
from storage.names import compact_name
from storage.schema import SCHEMA

REPLACES_KEY = b"tilework.replaces"
"""Key of the footer's metadata that holds the names of the replaced files."""
ORDER = [("target", "ascending"), ("workload_key", "ascending"), ("created_at", "ascending"),
         ("record_id", "ascending")]  # fmt: skip
"""How the rows of a compacted file are sorted."""
ROWS_A_GROUP = 10_000


def replaces(metadata: pq.FileMetaData) -> frozenset[str]:
    """The names of the files that a compacted file replaces.

    Raises:
        ValueError: the list in the footer is damaged.
    """
    packed = (metadata.metadata or {}).get(REPLACES_KEY, b"")
    return unpack_names(packed)


def pack_names(names: Iterable[str]) -> bytes:
    """Names as one value of a footer."""
    return base64.b64encode(zlib.compress("\n".join(sorted(names)).encode()))


def unpack_names(packed: bytes) -> frozenset[str]:
    """The inverse of `pack_names`.

    Raises:
        ValueError: it is not what `pack_names` makes.
    """
    if not packed:
        return frozenset()
    try:
        text = zlib.decompress(base64.b64decode(packed, validate=True)).decode()
    except zlib.error as error:
        raise ValueError(f"a list of names is damaged: {error}") from error
    return frozenset(text.split("\n")) - {""}


def key_ranges(metadata: pq.FileMetaData) -> list[tuple[Key, Key]]:
    """The first and the last key of each row group, or bounds of them.

    Where a row group holds several targets, statistics say nothing of its first workload.
    """
    columns = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    ranges = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        targets = group.column(columns["target"]).statistics
        workloads = group.column(columns["workload_key"]).statistics
        if not (targets and workloads and targets.has_min_max and workloads.has_min_max):
            ranges.append((("", ""), ("\U0010ffff", "")))
        elif targets.min == targets.max:
            ranges.append(((targets.min, workloads.min), (targets.max, workloads.max)))
        else:
            ranges.append(((targets.min, ""), (targets.max, "\U0010ffff")))
    return ranges


def sort_rows(table: pa.Table) -> pa.Table:
    """The rows in the order of compacted files, each record once (the first of equal ids)."""
    table = table.sort_by(ORDER)
    ids = table.column("record_id").combine_chunks().dictionary_encode()
    if len(ids.dictionary) < len(ids):
        first = np.unique(ids.indices.to_numpy(), return_index=True)[1]
        table = table.take(pa.array(np.sort(first)))
    return table


def split_keys(table: pa.Table) -> Iterator[tuple[Key, pa.Table]]:
    """The rows of each key, of rows sorted by key."""
    if not len(table):
        return
    change = np.zeros(len(table) - 1, bool)
    for name in ("target", "workload_key"):
        codes = table.column(name).combine_chunks().dictionary_encode().indices.to_numpy()
        change |= codes[1:] != codes[:-1]
    starts = [0, *(np.flatnonzero(change) + 1).tolist(), len(table)]
    targets = table.column("target").take(pa.array(starts[:-1])).to_pylist()
    workloads = table.column("workload_key").take(pa.array(starts[:-1])).to_pylist()
    for i, key in enumerate(zip(targets, workloads, strict=True)):
        yield key, table.slice(starts[i], starts[i + 1] - starts[i])


@dataclass(frozen=True)
class Compact:
    """A compacted file that is not written yet.

    Attributes:
        name: the file's name.
        content: its bytes.
        rows: how many rows it has.
        digest: hash of their record ids, in order.
    """

    name: str
    content: pa.Buffer
    rows: int
    digest: str


class CompactWriter:
    """Makes the content of one compacted file, key after key, in memory.

    Attributes:
        rows: rows so far.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            write_page_checksum=True,
            write_statistics=["target", "workload_key", "created_at"],
        )
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._digest = hashlib.sha256()

    def add(self, rows: pa.Table) -> None:
        """Adds all rows of a key: sorted, and behind those added before."""
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self.rows += len(rows)
        if self._waiting_rows >= ROWS_A_GROUP:
            self._flush()

    def close(self, replaced: Iterable[str]) -> Compact:
        """The file's name and content; ``replaced`` are the names of the files it replaces."""
        self._flush()
        names = frozenset(replaced)
        self._writer.add_key_value_metadata({REPLACES_KEY: pack_names(names)})
        self._writer.close()
        return Compact(
            compact_name(names), self._sink.getvalue(), self.rows, self._digest.hexdigest()
        )

    def _flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            self._writer.write_table(table, row_group_size=2 * ROWS_A_GROUP)
            self._digest.update(_ids(table))
            self._waiting, self._waiting_rows = [], 0


def verify(file: pq.ParquetFile, digest: str = "") -> int:
    """Reads all of a compacted file; with a digest, its record ids must be those.

    ``file`` is opened with ``page_checksum_verification``.

    Returns:
        The number of rows.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: it is damaged, or holds other records.
    """
    hashed = hashlib.sha256()
    rows = 0
    for index in range(file.metadata.num_row_groups):
        table = file.read_row_group(index)
        hashed.update(_ids(table))
        rows += len(table)
    if digest and hashed.hexdigest() != digest:
        raise ValueError("it holds other records than were written")
    return rows


def _ids(table: pa.Table) -> bytes:
    """The record ids as bytes, whatever chunks they stand in."""
    return "".join(f"{name}\n" for name in table.column("record_id").to_pylist()).encode()
