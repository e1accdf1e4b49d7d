"""All rows of a store, each record once, in tables that fit in memory.

Rows that stand in one file alone are given as they come. Where rows of a key may stand in several
files (a round that was compacted twice, a store that was merged with its own distilled one), these
files are read together, some keys at a time, and equal records count once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.index import Index
from storage.keys import KEY_COLUMNS, Key, keys_in, of_keys
from storage.names import is_compact, key_part
from storage.schema import SCHEMA
from storage.tables import Unusable, in_parallel

ROWS_AT_ONCE = 30_000
"""About so many rows are read together."""
_ROWS_A_ROUND = 64
_ROWS_A_KEY = 500

_Sources = dict[str, dict[str, set[Key]]]
"""By key part, the files of many keys that hold rows of it, and the keys."""


class Scan:
    """One pass over all rows of a store, or over those of some keys, or of some key parts.

    Every table that is given holds all rows of its keys, so that a pass that finds a file gone can
    go on with a newer index: keys that were given are passed over.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        keys: Collection[Key] | None = None,
        parts: Collection[str] | None = None,
    ) -> None:
        self._wanted = list(columns or SCHEMA.names)
        self._read = list(dict.fromkeys([*self._wanted, "record_id", *KEY_COLUMNS]))
        self._keys = None if keys is None else frozenset(keys)
        self._parts = parts
        if keys is not None:
            self._parts = {key_part(key[1], key[0]) for key in keys}
        self._given: set[Key] = set()

    def run(self, index: Index) -> Iterator[pa.Table]:
        """The tables, of the wanted columns.

        Raises:
            FileNotFoundError: a file is gone; look again and go on.
            StoreBusy: the store cannot be read now.
        """
        before = frozenset(self._given)
        for table in self._tables(index):
            if before:
                table = _without(table, before)
            if len(table):
                yield table.select(self._wanted)
                self._given |= keys_in(table)

    def _tables(self, index: Index) -> Iterator[pa.Table]:
        rounds = index.round_parts()
        sources = _sources(index, self._keys)
        mixed = {p for p, files in sources.items() if len(files) > 1 or p in rounds}
        if self._parts is None:
            for name in index.shared_files():
                yield from self._alone(index, name, mixed)
            parts = {*mixed, *rounds}
        else:
            parts = set(self._parts)
        for some in _chunks(parts, rounds, sources):
            yield self._together(index, some, rounds, sources)

    def _alone(self, index: Index, name: str, mixed: set[str]) -> Iterator[pa.Table]:
        """The rows of a file of many keys that stand in no other file."""
        keys = index.keys_of(name)
        leave = frozenset(key for key in keys if key_part(key[1], key[0]) in mixed)
        if leave == keys:
            return
        waiting = SCHEMA.empty_table().select(self._read)
        for table in self._file(index, name):
            table = pa.concat_tables([waiting, table])
            cut = _last_key(table) if is_compact(name) else len(table)
            waiting = table.slice(cut)
            yield _without(_once(table.slice(0, cut)), leave)
        yield _without(_once(waiting), leave)

    def _file(self, index: Index, name: str) -> Iterator[pa.Table]:
        """The rows of a file of many keys: of a compacted one, some row groups at a time."""
        if not is_compact(name):
            yield self._rows(index, name)
            return
        groups = len(index.ranges(name))
        step = max(1, ROWS_AT_ONCE // 10_000)
        for start in range(0, groups, step):
            yield self._rows(index, name, range(start, min(start + step, groups)))

    def _together(
        self, index: Index, parts: list[str], rounds: dict[str, list[str]], sources: _Sources
    ) -> pa.Table:
        """The rows of some key parts, from all files that hold any."""
        files = [name for part in parts for name in rounds.get(part, ())]
        smooth = index.tables.read_rounds(files, self._read)
        tables = [smooth] if smooth is not None else self._each(index, files)
        keys: dict[str, set[Key]] = defaultdict(set)
        for part in parts:
            for name, some in sources.get(part, {}).items():
                keys[name] |= some
        for name in sorted(keys):
            groups = index.groups(name, keys[name])
            for few in [[g] for g in groups] if groups is not None else [None]:
                tables.append(of_keys(self._rows(index, name, few), keys[name]))
        table = _once(pa.concat_tables(tables or [SCHEMA.empty_table().select(self._read)]))
        return table if self._keys is None else of_keys(table, self._keys)

    def _each(self, index: Index, names: list[str]) -> list[pa.Table]:
        return in_parallel(index.tables.place, lambda name: self._rows(index, name), names)

    def _rows(self, index: Index, name: str, groups: Sequence[int] | None = None) -> pa.Table:
        try:
            return index.tables.read(name, self._read, groups)
        except Unusable as error:
            index.fail(name, str(error))
            return SCHEMA.empty_table().select(self._read)


def _sources(index: Index, keys: Collection[Key] | None) -> _Sources:
    sources: _Sources = defaultdict(dict)
    for name in index.shared_files():
        there = index.keys_of(name)
        for key in there if keys is None else there & frozenset(keys):
            sources[key_part(key[1], key[0])].setdefault(name, set()).add(key)
    return sources


def _chunks(
    parts: Iterable[str], rounds: dict[str, list[str]], sources: _Sources
) -> Iterator[list[str]]:
    """Key parts some at a time: neighbours in compacted files together."""

    def place(part: str) -> tuple[Key, str]:
        keys = (key for some in sources.get(part, {}).values() for key in some)
        return min(keys, default=("", "")), part

    def rows(part: str) -> int:
        return _ROWS_A_ROUND * len(rounds.get(part, ())) + _ROWS_A_KEY * len(sources.get(part, ()))

    chunk, size = [], 0
    for part in sorted(parts, key=place):
        chunk.append(part)
        size += rows(part)
        if size >= ROWS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _last_key(table: pa.Table) -> int:
    """Where the rows of the last key begin, of rows that are sorted by key."""
    if not len(table):
        return 0
    same = np.ones(len(table), bool)
    for name in KEY_COLUMNS:
        column = table.column(name)
        same &= pc.equal(column, column[len(table) - 1]).to_numpy(zero_copy_only=False)
    return int(np.argmax(same))


def _without(table: pa.Table, keys: frozenset[Key]) -> pa.Table:
    return of_keys(table, keys_in(table) - keys) if keys else table


def _once(table: pa.Table) -> pa.Table:
    """Each record once: the first of equal ids."""
    ids = table.column("record_id").combine_chunks().dictionary_encode()
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if len(ids.dictionary) == len(ids):
        return table
    first = np.unique(ids.indices.to_numpy(), return_index=True)[1]
    return table.take(pa.array(np.sort(first)))
