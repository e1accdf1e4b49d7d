"""Stores of older versions: read as they are, and rewritten by the first append."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from storage import RecordStore
from storage.files import Location
from storage.names import RoundName, text_name
from storage.schema import SCHEMA, VERSION_KEY, to_table
from storage.upgrade import upgrade
from tasks import goals
from tilework.errors import StoreBusy
from tilework.record import FACTS, Purpose, record_id
from tilework.target.identity import DeviceIdentity

FROZEN = Path(__file__).parent / "data"
TARGET = "llvm -mcpu=x -num-cores=2"
ROWS = {"v1": 7, "v2": 5, "v3": 8}
NEWER = ("purpose", *FACTS, "device_id", "device_calibration_s")


@pytest.fixture(params=sorted(ROWS))
def old(request, tmp_path):
    """A copy of a store that an older version wrote, and the number of its records."""
    shutil.copytree(FROZEN / request.param, tmp_path / "records")
    return tmp_path / "records", ROWS[request.param]


def tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_readers(folder, rows):
    """Readers that know nothing of Tilework get exactly the records, with all columns."""
    frame = pd.read_parquet(folder)
    assert len(frame) == rows and list(frame.columns) == SCHEMA.names
    assert frame[["purpose", "device_id"]].notna().all(axis=None)
    assert frame.record_id.is_unique
    assert len(pl.read_parquet(folder)) == rows
    assert set(pl.read_parquet(folder).columns) == set(SCHEMA.names)
    for glob in ("*.parquet", "**/*.parquet"):
        counts = duckdb.sql(
            f"select count(*), count(distinct record_id) from '{folder}/{glob}'"
        ).fetchall()
        assert counts == [(rows, rows)]


def test_reading_writes_nothing(old):
    folder, rows = old
    before = tree(folder)
    store = RecordStore(folder)
    assert len(store.read()) == rows and store.problems == []
    assert store.best("conv", TARGET) is not None and store.keys()
    store.append([])
    assert tree(folder) == before


def test_the_first_append_makes_it_like_new(old, make_record):
    folder, rows = old
    before = RecordStore(folder).read()
    store = RecordStore(folder)
    best = store.best("conv", TARGET)
    new = make_record("new", 5, latency_s=1.0)
    store.append([new])
    check_readers(folder, rows + 1)
    for reader in (store, RecordStore(folder)):
        assert sorted(reader.read(), key=str) == sorted([*before, new], key=str)
        assert reader.best("conv", TARGET) == best and reader.problems == []
        assert all(reader.has_round(r.run_id, r.round) for r in before)
    assert all(RoundName.parse(path.name) for path in folder.glob("*.parquet"))


def test_documents_of_the_third_version(tmp_path, make_record):
    shutil.copytree(FROZEN / "v3", tmp_path / "records")
    store = RecordStore(tmp_path / "records")
    for _ in range(2):
        assert store.workload("conv") == '{"a": "dag"}'
        assert store.documents("models").read(text_name(TARGET)) == b'{"a": "model"}'
        assert store.models.names() == [] and store.champion("llvm") is None
        store.append([make_record("new", 5)])
    assert not list((tmp_path / "records").rglob("*.json"))
    assert not list((tmp_path / "records" / "_best").glob("*"))


@pytest.mark.parametrize("name", ["000-first.parquet", "zzz-last.parquet"])
def test_it_does_not_matter_which_file_sorts_first(tmp_path, make_round, name):
    """A file of the first schema once made pandas drop columns, or filled them with NaN."""
    table = to_table(make_round("old", 0)).drop_columns(list(NEWER))
    store = RecordStore(tmp_path)
    store.append(make_round("new", 1))
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"1"}), tmp_path / name)
    RecordStore(tmp_path).append(make_round("new", 2))
    check_readers(tmp_path, 9)
    assert (tmp_path / name).exists() and len(store.read()) == 9


@pytest.mark.parametrize("step", range(6))
def test_killed_in_between_nothing_is_lost(tmp_path, make_record, monkeypatch, step):
    shutil.copytree(FROZEN / "v3", tmp_path / "records")
    before = RecordStore(tmp_path / "records").read()
    calls = []

    def then_die(act):
        def call(*args, **kwargs):
            calls.append(act)
            if len(calls) > step:
                raise StoreBusy("killed")
            return act(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("create", "remove"):
            patch.setattr(Location, name, then_die(getattr(Location, name)))
        with pytest.raises(StoreBusy):
            RecordStore(tmp_path / "records").append([make_record("new", 5)])
    assert sorted(RecordStore(tmp_path / "records").read(), key=str) == sorted(before, key=str)
    RecordStore(tmp_path / "records").append([make_record("new", 5)])
    check_readers(tmp_path / "records", len(before) + 1)


def test_bests_that_stand_nowhere_else_are_kept(tmp_path, make_round, make_record):
    shutil.copytree(FROZEN / "v3", tmp_path / "records")
    other = tmp_path / "records" / "_best" / "other.parquet"
    pq.write_table(to_table(make_round("lost", 7)), other)
    RecordStore(tmp_path / "records").append([make_record("new", 5)])
    assert not other.exists()
    check_readers(tmp_path / "records", ROWS["v3"] + 1 + 3)
    assert {r.run_id for r in RecordStore(tmp_path / "records").read()} >= {"lost", "new"}


def test_what_cannot_be_read_stays(tmp_path, make_record):
    shutil.copytree(FROZEN / "v2", tmp_path / "records")
    half = tmp_path / "records" / "half.parquet"
    half.write_bytes((tmp_path / "records" / "round-frozen-000000.parquet").read_bytes()[:1000])
    (tmp_path / "records" / "notes.txt").write_text("hello")
    store = RecordStore(tmp_path / "records")
    store.append([make_record("new", 5)])
    assert half.exists() and len(half.read_bytes()) == 1000
    assert [line.partition(": not used")[0][-12:] for line in store.problems] == [
        "half.parquet", "ds/notes.txt",
    ]  # fmt: skip


def test_a_store_of_today_is_left_alone(tmp_path, make_round):
    store = RecordStore(tmp_path)
    store.append(make_round("a", 0))
    (tmp_path / "by-hand.parquet").write_bytes(next(tmp_path.glob("*.parquet")).read_bytes())
    before = tree(tmp_path)
    assert upgrade(store.location, [path.name for path in tmp_path.glob("*.parquet")]) == []
    assert tree(tmp_path) == before


def test_the_frozen_store_of_version_4_keeps_opening(tmp_path, make_record):
    """`data/v4`: rounds, a compacted file, bests and documents; it is never rewritten."""
    shutil.copytree(FROZEN / "v4", tmp_path / "records")
    store = RecordStore(tmp_path / "records")
    assert len(store.read()) == 12 and store.problems == []
    run = "0123456789abcdef"
    assert store.best("conv", TARGET).record_id == record_id(run, 4, "w4", 0)
    assert store.best("dense", TARGET).record_id == record_id(run, 2, "w4", 0)
    assert store.has_round(run, 1) and store.has_round(run, 6) and not store.has_round(run, 7)
    assert store.workload("conv") == '{"a": "dag"}'
    assert store.documents("models").read(text_name(TARGET)) == b'{"a": "model"}'
    assert store.models.names() == [] and store.champion("llvm") is None
    assert goals.kept(store, run) == {"trials": 64}
    device = DeviceIdentity("a CPU")
    assert [r.purpose for r in store.of("conv", TARGET)].count(Purpose.canary) == 1
    assert [r.round for r in store.hints("conv", TARGET, device)] == [4]
    store.append([make_record("new", 5)])
    check_readers(tmp_path / "records", 13)
