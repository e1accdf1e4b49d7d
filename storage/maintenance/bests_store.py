"""A store of nothing but bests: small enough to ship with a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from storage.bests import deciding
from storage.compacts import sort_rows, split_keys
from storage.files import Location
from storage.maintenance.distill import deciding_rows
from storage.maintenance.holdings import Damaged, Vanished, base, look, open_file, reading
from storage.maintenance.rows import all_rows
from storage.names import SUFFIX
from storage.schema import SCHEMA, from_table, to_table
from storage.tables import encode
from tilework.errors import StoreError
from tilework.record import Record, best_elsewhere

DISTILLED = "distilled"
"""How the names of files of bests begin."""


def distill_to(place: Location, out: Location) -> int:
    """Writes the best record of each key, device and version of the rules to another store.

    What ``out`` holds takes part, so that several stores may be distilled into one. Of ``out``
    only files of bests are replaced; records that its other files hold are not written again.

    Returns:
        The number of records in the new file of bests.

    Raises:
        StoreError: a store cannot be read or written, or both are one.
    """
    if place.path == out.path and place.filesystem.equals(out.filesystem):
        raise StoreError(f"cannot distil the store {place.text!r} into itself: name another")
    others = look(out).others
    before = [name for name in others if base(name).startswith(DISTILLED)]
    stays = pa.concat_tables([deciding_rows(out), _rows(out, set(others) - set(before))])
    offered = [deciding_rows(place), _rows(place, look(place).others), _rows(out, before)]
    best = bests_of(pa.concat_tables([stays, *offered]))
    there = set(stays.column("record_id").to_pylist())
    kept = [record for record in best if record.record_id not in there]
    name = _name(kept)
    if kept:
        out.create(name, encode(to_table(kept)))
    for old in before:
        if old != name:
            out.remove(old)
    return len(kept)


def best_records(place: Location) -> list[Record]:
    """The best record of each key, device and version of the rules, sorted by target and workload.

    Raises:
        StoreError: the store cannot be read.
    """
    rows = pa.concat_tables([deciding_rows(place), _rows(place, look(place).others)])
    return bests_of(rows)


def _rows(place: Location, names: Iterable[str]) -> pa.Table:
    """The records of files that can decide what is best; those that cannot be read have none."""
    tables = [SCHEMA.empty_table()]
    for name in sorted(names):
        try:
            with open_file(place, name) as file:
                tables.append(deciding(reading(place, name, all_rows, file)))
        except (Damaged, Vanished):
            continue
    return pa.concat_tables(tables)


def bests_of(rows: pa.Table) -> list[Record]:
    """Of records, the best of each key, device and version of the rules."""
    by_key = split_keys(sort_rows(rows))
    return [record for _, of_key in by_key for record in _best_of_key(from_table(of_key))]


def _best_of_key(records: list[Record]) -> Iterator[Record]:
    """The best record on each device, for each version of the rules."""
    for version in sorted({record.rules_version for record in records}):
        mine = [record for record in records if record.rules_version == version]
        yield from sorted(best_elsewhere(mine, None), key=lambda record: record.record_id)


def _name(records: Iterable[Record]) -> str:
    ids = "\n".join(sorted(record.record_id for record in records))
    return f"{DISTILLED}-{hashlib.sha256(ids.encode()).hexdigest()[:12]}{SUFFIX}"
