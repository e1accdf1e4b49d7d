"""The rows of many files, key after key, in bounded memory."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from storage.compacts import key_ranges, sort_rows, split_keys
from storage.files import Location
from storage.keys import Key
from storage.maintenance.holdings import Damaged, Vanished, in_parallel, open_file, reading
from storage.names import RoundName
from storage.schema import SCHEMA, conform

_ROWS_AT_ONCE = 20_000
_ROUND = ["run_id", "round", "workload_key", "target"]
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

Item = TypeVar("Item")


@dataclass(frozen=True)
class Part:
    """Rows of one key.

    Attributes:
        key: of all rows.
        rows: sorted as in compacted files, each record once.
        rounds: the files of rounds that were read for them.
    """

    key: Key
    rows: pa.Table
    rounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rounds:
    """Files of rounds by the key of all their rows.

    Attributes:
        by_key: (key, names, number of rows), sorted by key.
        problems: why files are left out, by name.
    """

    by_key: list[tuple[Key, list[str], int]]
    problems: dict[str, str]

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(len(names) for _, names, _ in self.by_key)


def sort_rounds(place: Location, names: Iterable[str]) -> Rounds:
    """Reads the footers of files of rounds; those that vanished are passed over.

    Raises:
        StoreError: the store cannot be read now.
    """
    by_key: dict[Key, tuple[list[str], int]] = {}
    problems = {}
    for name, footer in in_parallel(place, lambda name: _footer(place, name), names):
        if isinstance(footer, Damaged):
            problems[name] = footer.reason
        elif not isinstance(footer, Vanished):
            key, rows = footer
            known, before = by_key.get(key, ([], 0))
            by_key[key] = ([*known, name], before + rows)
    return Rounds([(key, *by_key[key]) for key in sorted(by_key)], problems)


def round_parts(
    place: Location, rounds: Rounds, skipped: dict[str, str], beat: Callable[[], None]
) -> Iterator[Part]:
    """The rows of rounds, key after key.

    Files that turn out to be damaged are passed over and named in ``skipped``; those that have
    vanished are passed over. ``beat`` is called now and then.

    Raises:
        StoreError: the store cannot be read now.
    """
    for batch in in_batches(rounds.by_key, lambda entry: entry[2]):
        beat()
        read, table = read_files(place, [n for _, names, _ in batch for n in names], skipped)
        by_key = {key: tuple(n for n in names if n in read) for key, names, _ in batch}
        for key, rows in split_keys(sort_rows(table)):
            yield Part(key, rows, by_key.get(key, ()))


def compact_parts(
    place: Location, name: str, beat: Callable[[], None], keys: Iterable[Key] | None = None
) -> Iterator[Part]:
    """The rows of a compacted file, key after key; a large key comes in several parts.

    With ``keys``, row groups in which none of these can stand are passed over.

    Raises:
        Damaged, Vanished, StoreError: it cannot be read.
    """
    with open_file(place, name) as file:
        wanted = None if keys is None else sorted(keys)
        for index, (low, high) in enumerate(key_ranges(file.metadata)):
            if wanted is not None and not _any_between(wanted, low, high):
                continue
            beat()
            table = reading(place, name, row_group, file, index)
            for key, rows in split_keys(table):
                yield Part(key, rows)


def merge_parts(streams: Iterable[Iterator[Part]]) -> Iterator[Part]:
    """The parts of all streams as one, each key once."""
    merged = heapq.merge(*streams, key=lambda part: part.key)
    for key, group in groupby(merged, key=lambda part: part.key):
        parts = list(group)
        if len(parts) == 1:
            yield parts[0]
        else:
            rows = sort_rows(pa.concat_tables([part.rows for part in parts]))
            yield Part(key, rows, tuple(name for part in parts for name in part.rounds))


def round_names(rows: pa.Table) -> set[str]:
    """The names that the files of these rows would have, a file for each round and key.

    So rows whose files are not known are named like others: a round that is not whole has another
    name than the whole one, because a name holds a hash of the ids.
    """
    groups = rows.group_by(_ROUND).aggregate([("record_id", "list")]).to_pylist()
    columns = (*_ROUND, "record_id_list")
    return {str(RoundName.of(*(row[column] for column in columns))) for row in groups}


def by_round(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each round and key, in their order, with the name of such a file."""
    numbered = rows.append_column("number", pa.array(range(len(rows))))
    groups = numbered.group_by(_ROUND).aggregate([("number", "list")])
    for numbers in groups.column("number_list").to_pylist():
        part = rows.take(pa.array(sorted(numbers)))
        (name,) = round_names(part)
        yield name, part


def read_files(
    place: Location, names: list[str], skipped: dict[str, str]
) -> tuple[frozenset[str], pa.Table]:
    """All rows of some files, and which of them could be read.

    Raises:
        StoreError: the store cannot be read now.
    """
    try:
        dataset = ds.dataset(
            [place.join(name) for name in names],
            schema=SCHEMA,
            filesystem=place.filesystem,
            format=_FORMAT,
        )
        return frozenset(names), conform(dataset.to_table())
    except (pa.ArrowException, OSError, ValueError):
        pass  # one of them is not as it should be: look at each
    tables = [SCHEMA.empty_table()]
    read = set()
    for name in names:
        try:
            with open_file(place, name) as file:
                tables.append(reading(place, name, all_rows, file))
            read.add(name)
        except Damaged as error:
            skipped[name] = error.reason
        except Vanished:
            continue
    return frozenset(read), pa.concat_tables(tables)


def all_rows(file: pq.ParquetFile) -> pa.Table:
    """All rows of a file with the columns of today."""
    return conform(file.read())


def row_group(file: pq.ParquetFile, index: int) -> pa.Table:
    """A row group with the columns of today."""
    return conform(file.read_row_group(index))


def _any_between(keys: list[Key], low: Key, high: Key) -> bool:
    at = bisect_left(keys, low)
    return at < len(keys) and keys[at] <= high


def _footer(place: Location, name: str) -> tuple[Key, int]:
    with open_file(place, name) as file:
        return _only_key(name, file.metadata), file.metadata.num_rows


def _only_key(name: str, metadata: pq.FileMetaData) -> Key:
    ranges = key_ranges(metadata)
    if not ranges:
        raise Damaged(name, "it holds no records")
    low, high = ranges[0]
    if low != high or any(bounds != ranges[0] for bounds in ranges):
        raise Damaged(name, "it is named as a round and holds several workloads")
    return low


def in_batches(items: Iterable[Item], rows_in: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Items in lists of so many rows as are looked at together, or of one that has more."""
    batch: list[Item] = []
    rows = 0
    for item in items:
        batch.append(item)
        rows += rows_in(item)
        if rows >= _ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def parts_of(rows: pa.Table) -> Iterator[Part]:
    """Sorted rows by their keys."""
    return (Part(key, part) for key, part in split_keys(rows))


def rows_of_unnamed(place: Location, name: str, left: dict[str, str]) -> pa.Table | None:
    """The rows, sorted, of a file whose name says nothing of them.

    Args:
        left: is told of a file that is damaged.

    Returns:
        None where it is damaged, or gone.

    Raises:
        StoreError: the store cannot be read now.
    """
    try:
        with open_file(place, name) as file:
            return sort_rows(reading(place, name, all_rows, file))
    except Damaged as error:
        left[name] = error.reason
    except Vanished:
        pass
    return None
