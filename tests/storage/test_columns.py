"""Every column has a meaning, and the docs hold the table that the code holds."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from storage.columns import COLUMNS, markdown
from storage.schema import SCHEMA
from tilework.record import FACTS, SCHEMA_VERSION, Purpose, Record, Status

DOCS = Path(__file__).parents[2] / "docs" / "records.md"


def test_every_column_is_described():
    assert [one.name for one in COLUMNS] == SCHEMA.names == [f.name for f in fields(Record)]
    assert all(one.meaning.endswith(".") for one in COLUMNS)
    assert max(one.since for one in COLUMNS) == SCHEMA_VERSION
    by_name = {one.name: one for one in COLUMNS}
    assert {by_name[name].since for name in FACTS} == {3}


def test_every_status_and_purpose_is_named():
    said = {one.name: one.meaning for one in COLUMNS}
    assert all(f"`{status}`" in said["status"] for status in Status)
    assert all(f"`{purpose}`" in said["purpose"] for purpose in Purpose)


def test_the_docs_hold_the_table():
    assert DOCS.read_text().endswith(markdown())
