"""The columns of a record file: Arrow schema, and conversion from and to plain records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tilework.record import FACTS, SCHEMA_VERSION, Purpose, Record, Status

VERSION_KEY = b"tilework.schema_version"
"""Key of the file's metadata that says which columns to expect."""

_TEXT = pa.string()
_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("schema_version", pa.int32()),
    ("record_id", _TEXT),
    ("run_id", _TEXT),
    ("round", pa.int32()),
    ("created_at", pa.timestamp("us", tz="UTC")),
    ("workload_key", _TEXT),
    ("workload", _TEXT),
    ("network", _TEXT),
    ("flops", pa.float64()),
    ("target", _TEXT),
    ("device", _TEXT),
    ("host", _TEXT),
    ("num_cores", pa.int32()),
    ("engine_version", _TEXT),
    ("sketch_id", pa.int32()),
    ("rules_version", pa.int32()),
    ("decisions", pa.list_(pa.int32())),
    ("code_hash", _TEXT),
    ("status", _TEXT),
    ("error", _TEXT),
    ("latency_s", pa.float64()),
    ("latency_samples", pa.list_(pa.float64())),
    ("latency_spread", pa.float64()),
    ("calibration_s", pa.float64()),
    ("build_s", pa.float64()),
    ("max_rel_error", pa.float64()),
    ("predicted_score", pa.float64()),
    ("model_id", _TEXT),
    ("purpose", _TEXT),
    *((name, pa.int32()) for name in FACTS),
    ("device_id", _TEXT),
    ("device_calibration_s", pa.float64()),
)
_ADDED: dict[str, str | None] = {
    "purpose": Purpose.search.value, **dict.fromkeys(FACTS), "device_id": "",
    "device_calibration_s": None,
}  # fmt: skip
"""Columns that older files lack, and what they mean there."""
_NULLABLE = frozenset(
    (
        "latency_s", "latency_spread", "calibration_s", "build_s", "max_rel_error",
        "predicted_score", *FACTS, "device_calibration_s",
    )
)  # fmt: skip
_MEMBERS: dict[str, type[StrEnum]] = {"status": Status, "purpose": Purpose}
_DISTINCT_TEXT = frozenset(("record_id", "code_hash"))

SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in _COLUMNS],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)

assert [f.name for f in fields(Record)] == SCHEMA.names


class NotRecords(ValueError):
    """A table that does not hold records this version can read; the message says why."""


def to_table(records: Iterable[Record]) -> pa.Table:
    """Converts records to a table of `SCHEMA`, one row each, in order."""
    rows = list(records)
    columns = [
        pa.array([_plain(getattr(row, field.name)) for row in rows], type=field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def check_schema(schema: pa.Schema) -> None:
    """Raises `NotRecords` unless files of this schema can be read as records."""
    missing = [n for n in SCHEMA.names if n not in schema.names and n not in _ADDED]
    version = (schema.metadata or {}).get(VERSION_KEY, str(SCHEMA_VERSION).encode())
    if not version.isdigit():
        raise NotRecords(f"its schema version is {version!r}, which is not a number")
    _check_version(int(version))
    if missing:
        raise NotRecords(f"it is not a file of records: column {missing[0]!r} is missing")


def conform(table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """A table whose schema passed `check_schema`, with the columns of `SCHEMA` or some of them.

    Columns that older files lack get what they mean there.

    Raises:
        NotRecords: a column has another type, a required value is missing, a status or purpose is
            unknown, or a row is of a newer schema.
    """
    schema = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    for name in schema.names:
        if name not in table.column_names:
            kind, value = SCHEMA.field(name).type, _ADDED[name]
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), len(table)))
    table = table.select(schema.names)
    for field in schema:
        if not field.nullable and table.column(field.name).null_count:
            raise NotRecords(f"column {field.name!r} has empty values")
    try:
        table = table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise NotRecords(f"its columns have other types: {error}") from error
    for name, members in _MEMBERS.items():
        if name in schema.names:
            _check_members(name, members, table.column(name))
    if "schema_version" in schema.names:
        newest = pc.max(table.column("schema_version")).as_py()
        _check_version(SCHEMA_VERSION if newest is None else newest)
    return table


def from_table(table: pa.Table) -> list[Record]:
    """Converts a table whose schema passed `check_schema` to records.

    Raises:
        NotRecords: as `conform`.
    """
    table = conform(table)
    columns: list[list[Any]] = []
    for field in SCHEMA:
        values = table.column(field.name).to_pylist()
        if field.name in _MEMBERS:
            values = [_MEMBERS[field.name](value) for value in values]
        elif field.type == _TEXT and field.name not in _DISTINCT_TEXT:
            values = [sys.intern(value) for value in values]
        elif pa.types.is_list(field.type):
            values = [tuple(value) for value in values]
        columns.append(values)
    return [Record(*row) for row in zip(*columns, strict=True)]


def _check_version(version: int) -> None:
    if version > SCHEMA_VERSION:
        raise NotRecords(
            f"it has schema version {version} and this Tilework reads up to {SCHEMA_VERSION}: "
            "update Tilework to use it"
        )


def _check_members(name: str, members: type[StrEnum], column: pa.ChunkedArray) -> None:
    known = [member.value for member in members]
    for value in pc.unique(column).to_pylist():
        if value not in known:
            raise NotRecords(f"{name} {value!r} is unknown")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value
