"""Files that are not records, and places that cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import RecordStore
from storage.names import RoundName
from storage.schema import SCHEMA, VERSION_KEY
from storage.tables import Tables
from tilework.errors import StoreBusy, StoreError
from tilework.record import FACTS, Purpose

FROZEN = Path(__file__).parent / "data" / "v1"
TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture
def folder(tmp_path, make_round):
    """A store with one good round."""
    RecordStore(tmp_path).append(make_round())
    return tmp_path


def first(folder):
    """The file of the good round."""
    (name,) = [name for name in os.listdir(folder) if RoundName.parse(name).round == 0]
    return folder / name


def only_problem(folder):
    store = RecordStore(folder)
    assert len(store.read()) == 3
    (problem,) = store.problems
    assert "\n" not in problem
    return problem


def test_half_a_file(folder):
    whole = first(folder).read_bytes()
    (folder / "half.parquet").write_bytes(whole[: len(whole) // 2])
    assert "half.parquet: not used: it cannot be read as Parquet" in only_problem(folder)


def test_an_empty_file(folder):
    (folder / "empty.parquet").touch()
    assert "empty.parquet: not used" in only_problem(folder)


def test_a_file_with_a_flipped_bit(folder, make_round):
    kept = first(folder)
    RecordStore(folder).append(make_round(round=1))
    (path,) = set(folder.iterdir()) - {kept}
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    assert f"{path.name}: not used" in only_problem(folder)


def test_a_foreign_file(folder):
    (folder / "README.txt").write_text("hello")
    assert "README.txt: not used" in only_problem(folder)


def test_a_foreign_table(folder):
    pd.DataFrame({"a": [1]}).to_parquet(folder / "other.parquet")
    assert "not a file of records: column 'schema_version' is missing" in only_problem(folder)


def test_a_newer_schema(folder):
    table = pq.read_table(first(folder))
    newer = table.append_column("energy_j", pa.array([1.0] * 3))
    pq.write_table(newer.replace_schema_metadata({VERSION_KEY: b"5"}), folder / "new.parquet")
    assert "schema version 5 and this Tilework reads up to 4: update" in only_problem(folder)


def test_a_store_of_a_newer_schema_is_one_line(folder):
    newer = pq.read_table(first(folder)).replace_schema_metadata({VERSION_KEY: b"5"})
    for number in range(5):
        pq.write_table(newer, folder / f"new{number}.parquet")
    problem = only_problem(folder)
    assert "5 files not used, the first of them new0.parquet: it has schema version 5" in problem


def test_columns_of_other_types(folder):
    table = pq.read_table(first(folder))
    at = SCHEMA.names.index("flops")
    bad = table.set_column(at, "flops", pa.array(["fast"] * 3))
    pq.write_table(bad, folder / "bad.parquet")
    assert "bad.parquet: not used: its columns have other types" in only_problem(folder)


def test_an_unknown_status(folder):
    table = pq.read_table(first(folder))
    at = SCHEMA.names.index("status")
    bad = table.set_column(at, SCHEMA.field("status"), pa.array(["great"] * 3))
    pq.write_table(bad, folder / "bad.parquet")
    assert "status 'great' is unknown" in only_problem(folder)


def test_files_of_the_first_schema_are_read(folder, make_record):
    table = pq.read_table(first(folder)).drop_columns(["purpose", *FACTS])
    table = table.replace_schema_metadata({VERSION_KEY: b"1"})
    pq.write_table(table, first(folder))
    store = RecordStore(folder)
    assert store.problems == []
    assert {record.purpose for record in store.read()} == {Purpose.search}


def test_missing_values(folder):
    table = pq.read_table(first(folder))
    at = SCHEMA.names.index("target")
    bad = table.set_column(at, "target", pa.array(["x", None, "x"]))
    pq.write_table(bad, folder / "bad.parquet")
    assert "column 'target' has empty values" in only_problem(folder)


def test_rewritten_by_pandas_is_still_a_store(folder, make_round):
    frame = pd.read_parquet(folder)
    first(folder).unlink()
    frame.to_parquet(folder / "copy.parquet")
    store = RecordStore(folder)
    assert store.read() == make_round()
    assert store.problems == []


def test_an_unreadable_round_is_measured_and_written_again(folder, make_round):
    path = first(folder)
    path.write_bytes(path.read_bytes()[:100])
    store = RecordStore(folder)
    assert store.of("conv", TARGET) == [] and path.name in store.problems[0]
    assert not store.has_round("run", 0)
    store.append(make_round())
    assert len(store.of("conv", TARGET)) == 3
    assert store.has_round("run", 0)
    assert store.problems == []


def test_a_store_below_a_file_cannot_be_written(tmp_path, make_round):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "records"):
        for act in (lambda s: s.append(make_round()), lambda s: s.check_writable()):
            with pytest.raises(StoreError, match=r"file.*choose another store"):
                act(RecordStore(path))


def test_an_unwritable_path(make_round):
    with pytest.raises(StoreError, match=r"cannot write to the record store '/proc/nothing'"):
        RecordStore("/proc/nothing").append(make_round())


@pytest.mark.parametrize(("code", "hint"), [(errno.ENOSPC, "disk is full"), (errno.EIO, "check")])
def test_a_full_disk_leaves_nothing_behind(folder, make_round, monkeypatch, code, hint):
    def fail(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreBusy, match=hint) as caught:
        RecordStore(folder).append(make_round(round=1))
    assert str(folder) in str(caught.value)
    assert os.listdir(folder) == [first(folder).name]


def test_a_read_only_store_is_read_and_told_on_writing(folder, make_round, monkeypatch):
    def refuse(path, flags, *rest, **more):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **more)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)
    store = RecordStore(folder)
    assert len(store.read()) == 3 and store.best("conv", TARGET) is not None
    for act in (lambda: store.append(make_round(round=1)), store.check_writable):
        with pytest.raises(StoreError, match="the filesystem is read-only") as caught:
            act()
        assert not isinstance(caught.value, StoreBusy) and "\n" not in str(caught.value)


def test_an_unknown_scheme():
    with pytest.raises(StoreError, match="cannot open the record store 'gopher://x'"):
        RecordStore("gopher://x")


def test_check_writable_creates_the_directory_and_leaves_nothing_in_it(tmp_path):
    folder = tmp_path / "a" / "b"
    RecordStore(folder).check_writable()
    assert os.listdir(folder) == []


def test_the_frozen_dataset_of_version_1_keeps_opening(tmp_path):
    """`tests/storage/data/v1` was written by version 1 of the schema and is never rewritten."""
    shutil.copytree(FROZEN, tmp_path / "v1")
    store = RecordStore(tmp_path / "v1")
    assert store.problems == []
    assert len(store.read()) == 7
    assert sorted({r.status.value for r in store.read()}) == [
        "compile_error", "crashed", "ok", "timeout", "wrong_answer",
    ]  # fmt: skip
    best = store.best("conv", TARGET)
    assert best.record_id == "frozen-0-0"
    assert best.decisions == (4, 8, -1, 0)
    assert best.latency_s == 1e-3
    assert store.has_round("frozen", 1)
    store.append([])
    assert len(pd.read_parquet(tmp_path / "v1")) == 7


def test_the_frozen_dataset_of_version_2_keeps_opening(tmp_path, make_record):
    """As `v1`; its second round holds finals."""
    shutil.copytree(FROZEN.parent / "v2", tmp_path / "v2")
    store = RecordStore(tmp_path / "v2")
    assert store.problems == []
    assert [r.purpose.value for r in store.read()] == ["search"] * 3 + ["final"] * 2
    assert store.best("conv", TARGET).record_id == "frozen-1-1"
    assert all(r.facts == {} and r.registers is None for r in store.read())
    store.append([make_record("new", 2, target="cuda -arch=sm_80", registers=64)])
    assert store.problems == [] and store.read()[-1].registers == 64
    assert len(pd.read_parquet(tmp_path / "v2")) == 6


def test_a_disk_that_fails_once_is_no_damage(folder, monkeypatch):
    """A file that cannot be read now is asked for again; only what is in it makes it unusable."""
    store, opened = RecordStore(folder), Tables._file
    failures = [OSError(errno.EIO, os.strerror(errno.EIO)), TimeoutError(errno.ETIMEDOUT, "late")]

    def fail(tables, name):
        if failures:
            raise failures.pop()
        return opened(tables, name)

    monkeypatch.setattr(Tables, "_file", fail)
    for question in (lambda: store.of("conv", TARGET), lambda: store.best("conv", TARGET)):
        with pytest.raises(StoreBusy):
            question()
    assert len(store.of("conv", TARGET)) == 3 and store.problems == []


def test_a_file_without_permission_is_named(folder, monkeypatch):
    store = RecordStore(folder)

    def refuse(tables, name):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Tables, "_file", refuse)
    assert store.of("conv", TARGET) == []
    assert store.problems[0].endswith("not used: it cannot be read (Permission denied)")
