"""Appending, querying, merging and distilling a record store."""

from __future__ import annotations

import os
import shutil
from dataclasses import fields, replace

import pandas as pd
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from storage import RecordStore
from storage.maintenance.compact import compact
from storage.names import RoundName
from storage.tables import Tables
from tilework.record import FACTS, MemoryHistory, Record, RecordLog, Status

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "records")


@pytest.fixture
def reads(monkeypatch):
    """The names of files of which rows or footers are read from now on."""
    names = []
    read = Tables._open
    monkeypatch.setattr(Tables, "_open", lambda s, n, act: (names.append(n), read(s, n, act))[1])
    return names


def visible(path):
    return sorted(p.name for p in path.iterdir() if not p.name.startswith("."))


def test_missing_directory_is_an_empty_store(store, tmp_path):
    assert store.read() == []
    assert store.best("conv", TARGET) is None
    assert not store.has_round("run", 0)
    assert store.problems == []
    assert not (tmp_path / "records").exists()


def test_records_come_back_as_they_were(store, make_record, make_round):
    failed = make_record(
        index=9, status=Status.crashed, error="run: SIGSEGV", latency_s=None, latency_samples=(),
        latency_spread=None, max_rel_error=None, calibration_s=None, build_s=None,
        predicted_score=None, decisions=(),
    )  # fmt: skip
    rows = [*make_round(), failed]
    store.append(rows)
    assert RecordStore(store.path).read() == rows
    assert store.of("conv", TARGET) == rows
    assert isinstance(store.read()[0].status, Status)


def test_facts_of_gpu_code_are_columns(store, make_record):
    known = make_record(target="cuda -arch=sm_80", registers=128, spill_bytes=0, blocks_per_sm=2)
    store.append([make_record(index=1), known])
    assert RecordStore(store.path).read() == [known, make_record(index=1)]
    assert known.facts == {"registers": 128, "spill_bytes": 0, "blocks_per_sm": 2}
    assert make_record().facts == {}
    frame = store.frame()
    assert frame.registers.isna().tolist() == [False, True]
    assert set(FACTS) <= set(frame.columns)


def test_a_round_is_one_file_and_appending_it_again_changes_nothing(store, make_round, tmp_path):
    store.append(make_round(round=3))
    RecordStore(store.path).append(make_round(round=3))
    (name,) = visible(tmp_path / "records")
    assert RoundName.parse(name).round == 3
    assert len(store.read()) == 3
    assert store.has_round("run", 3)
    assert not store.has_round("run", 2)
    assert not store.has_round("other", 3)


def test_equal_hosts_on_one_run_lose_nothing(store, make_record):
    """Both measure round 0 of the run; their ids differ by the sessions that wrote them."""
    hosts = [RecordStore(store.path) for _ in range(2)]
    for host in ("one", "two"):
        rows = [make_record(record_id=f"run-000000-{host}-{i}", host=host) for i in range(3)]
        hosts[host == "two"].append(rows)
    assert len(store.read()) == 6 and len(store.of("conv", TARGET)) == 6


def test_tasks_of_a_round_have_files_of_their_own(store, make_record, tmp_path):
    store.append([make_record(index=i, workload_key=f"conv{i % 2}") for i in range(4)])
    assert len(visible(tmp_path / "records")) == 2
    assert len(store.of("conv0", TARGET)) == 2


def test_records_are_found_by_the_beginning_of_their_ids(store, make_record, reads):
    ids = [f"run-{n:06d}-w-000{i}" for n in range(12) for i in range(2)]
    store.append(make_record(round=int(i[4:10]), workload_key=i[4:10], record_id=i) for i in ids)
    reads.clear()
    assert [r.record_id for r in store.find("run-000003-w-0001")] == ["run-000003-w-0001"]
    assert len(reads) == 1
    assert [r.record_id for r in store.find("run-000003-w")] == ids[6:8]
    assert len(store.find("run-00001")) == 4 and len(store.find("")) == 24
    assert store.find("walk") == [] == store.find("run-000099-w-0000")
    compact(store.location, least=1)
    assert [r.record_id for r in store.find("run-000003-w-0001")] == ["run-000003-w-0001"]
    assert len(store.find("run-00001")) == 4


def test_appending_nothing_writes_nothing(store, tmp_path):
    store.append([])
    assert not (tmp_path / "records").exists()


def test_best_is_the_fastest_ok_record_of_the_target(store, make_record):
    rows = [
        make_record(index=0, latency_s=3e-3),
        make_record(index=1, latency_s=1e-3, status=Status.wrong_answer),
        make_record(index=2, latency_s=1e-3, target="llvm -mcpu=y"),
        make_record(index=3, latency_s=None),
        make_record(index=5, latency_s=2e-3),
        make_record(index=4, latency_s=2e-3),
    ]
    store.append(rows)
    for history in (store, MemoryHistory(rows)):
        assert history.best("conv", TARGET) == rows[5]
        assert history.best("conv", "llvm -mcpu=y") == rows[2]
        assert history.best("dense", TARGET) is None


def test_other_rules_are_kept_but_not_used(store, make_record):
    old = make_record(index=0, rules_version=1, latency_s=1e-9)
    new = make_record(index=1, rules_version=2)
    store.append([old, new])
    strict = RecordStore(store.path, rules_version=2)
    assert strict.problems == []
    assert strict.best("conv", TARGET) == new
    assert strict.of("conv", TARGET) == [new]
    assert len(strict.read()) == 2
    assert strict.problems == [f"{store.path}: 1 rows not used: rules version 1, not 2"]
    assert store.best("conv", TARGET) == old


def test_another_release_uses_the_same_records(store, make_round):
    store.append(make_round(engine_version="0.1.0"))
    store.append(make_round("b", engine_version="7.5.3", latency_s=1e-4))
    strict = RecordStore(store.path, rules_version=1)
    assert strict.best("conv", TARGET).run_id == "b" and strict.problems == []


def test_opening_reads_nothing_and_a_question_what_it_needs(store, make_round, reads, tmp_path):
    for key in ("conv", "dense", "pool"):
        store.append(make_round(key, workload_key=key))
    other = RecordStore(store.path)
    assert len(other.of("dense", TARGET)) == 3
    (name,) = reads
    assert pq.read_table(tmp_path / "records" / name)["workload_key"][0].as_py() == "dense"
    assert other.best("dense", TARGET) is not None and len(reads) == 1
    other.append(make_round("dense", round=1, workload_key="dense"))
    assert len(other.of("dense", TARGET)) == 6 and len(reads) == 2


def test_what_nobody_changes_is_listed_no_more(store, make_round, monkeypatch):
    store.append(make_round())
    os.utime(store.path, (1e9, 1e9))
    other = RecordStore(store.path)
    assert other.best("conv", TARGET) is not None
    monkeypatch.setattr(os, "scandir", None)
    for _ in range(3):
        assert len(other.of("conv", TARGET)) == 3


def test_stores_merge_by_copying_files(store, make_round, tmp_path):
    other = RecordStore(tmp_path / "other")
    store.append(make_round("a"))
    other.append(make_round("b", latency_s=5e-4))
    (tmp_path / "records" / "team").mkdir()
    for file in (tmp_path / "other").glob("*.parquet"):
        shutil.copy(file, tmp_path / "records" / "team" / file.name)
        shutil.copy(file, tmp_path / "records" / "twice.parquet")
    assert len(store.read()) == 6
    assert store.best("conv", TARGET).run_id == "b" and len(store.of("conv", TARGET)) == 6
    assert store.has_round("b", 0)


def test_each_kind_of_machine_has_its_own_version_of_the_rules(make_round, tmp_path):
    versions = {"llvm": 1, "cuda": 7}
    store = RecordStore(tmp_path, rules_version=lambda text: versions.get(text.split()[0]))
    cuda, other = "cuda -arch=sm_90", "abacus -beads=10"
    store.append(make_round("a", 0))
    store.append(make_round("a", 1, target=cuda, rules_version=7))
    store.append(make_round("a", 2, target=cuda))
    store.append(make_round("a", 3, target=other))
    assert store.best("conv", TARGET).round == 0
    assert store.best("conv", cuda).round == 1
    assert len(store.of("conv", cuda)) == 3 and store.of("conv", other) == []
    assert [line.partition(": ")[2] for line in store.problems] == [
        "3 rows not used: of target abacus -beads=10, which this Tilework does not know",
        "3 rows not used: rules version 1, not 7",
    ]
    assert RecordStore(tmp_path, rules_version=7).best("conv", TARGET) is None


def test_removed_files_are_forgotten(store, make_round, tmp_path):
    store.append(make_round("a"))
    store.append(make_round("b", latency_s=5e-4))
    assert store.best("conv", TARGET).run_id == "b"
    gone = RoundName.of("b", 0, "conv", TARGET, [f"b-0-{i}" for i in range(3)])
    (tmp_path / "records" / str(gone)).unlink()
    assert store.best("conv", TARGET).run_id == "a"
    assert not store.has_round("b", 0)


def test_pandas_reads_the_directory(store, make_round, tmp_path):
    store.append(make_round(round=0))
    store.append(make_round(round=1))
    (tmp_path / "records" / ".half.parquet.1.tmp").write_bytes(b"PAR1 half")
    columns = [f.name for f in fields(Record)]
    for frame in (pd.read_parquet(store.path), pd.read_parquet(store), store.frame()):
        assert list(frame.columns) == columns
        assert len(frame) == 6
        assert frame["latency_s"].dtype == float
        assert str(frame["created_at"].dt.tz) == "UTC"
        assert list(frame["decisions"][4]) == [4, 8, -1, 1]
        assert frame[frame.status == "ok"].groupby("workload_key").latency_s.min()["conv"] == 1e-3


def test_file_names_are_safe(store, make_round, tmp_path):
    store.append(make_round("../../escape"))
    assert store.has_round("../../escape", 0) and not store.has_round("escape", 0)
    assert visible(tmp_path) == ["records"]


def test_uri_and_open_filesystem(tmp_path, make_round):
    local = RecordStore(f"file://{tmp_path}/by-uri")
    local.append(make_round())
    assert len(RecordStore(tmp_path / "by-uri").read()) == 3
    remote = RecordStore("bucket/records", filesystem=pafs._MockFileSystem())
    remote.check_writable()
    remote.append(make_round())
    assert len(remote.of("conv", TARGET)) == 3
    assert remote.best("conv", TARGET).record_id == "run-0-0"
    assert remote.problems == []


def test_files_carry_their_schema_version(store, make_round, tmp_path):
    store.append(make_round())
    (path,) = (tmp_path / "records").iterdir()
    schema = pq.read_schema(path)
    assert schema.metadata[b"tilework.schema_version"] == b"4"


def test_both_histories_are_record_logs(store, make_round):
    for log in (store, MemoryHistory()):
        assert isinstance(log, RecordLog)
        rows = make_round(n=2)
        log.append(rows)
        log.append(rows)
        assert log.has_round("run", 0)
        assert log.of("conv", TARGET) == rows
        assert log.read() == rows
        assert replace(rows[0]) == log.best("conv", TARGET)
