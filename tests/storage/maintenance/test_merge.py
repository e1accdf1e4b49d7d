"""Stores put together hold each record once."""

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage import RecordStore
from storage.documents import Documents
from storage.files import Location
from storage.maintenance.bests_store import distill_to
from storage.maintenance.check import check
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.merge import merge
from tilework.errors import StoreError
from tilework.record import Purpose, best_of


@pytest.fixture
def two(folder, other_folder, make_round):
    """Two stores of 20 rounds, 10 of which they share."""
    for i in range(20):
        folder.write(make_round(round=i, workload_key=f"w{i % 5}"))
        other_folder.write(make_round(round=i + 10, workload_key=f"w{i % 5}", latency_s=5e-4))
    return folder, other_folder


def ids(folder):
    return [record.record_id for record in folder.records()]


def test_rounds_come_once(two):
    one, other = two
    expected = sorted(set(ids(one)) | set(ids(other)))
    # equal ids, other latencies: as nobody writes them, but equal names are the same round
    done = merge([other.place], one.place)
    assert (done.rounds, done.known, done.left) == (10, 10, {})
    assert ids(one) == expected
    done = merge([other.place], one.place)
    assert (done.rounds, done.known) == (0, 20)
    assert check(one.place).sound


@pytest.mark.parametrize("compacted", ["source", "target", "both"])
def test_compacted_stores(two, compacted):
    one, other = two
    expected = sorted(set(ids(one)) | set(ids(other)))
    if compacted != "source":
        compact(one.place)
    if compacted != "target":
        compact(other.place)
    done = merge([other.place], one.place)
    assert (done.rounds, done.known) == (10, 10)
    assert ids(one) == expected
    assert check(one.place).sound


def test_a_store_and_its_bests(two, tmp_path):
    one, other = two
    distill_to(one.place, other.place)  # the other one has bests of the first, too
    before = ids(one)
    assert merge([other.place], one.place).left == {}
    assert set(before) < set(ids(one))
    assert len(ids(one)) == len(set(ids(one)))
    assert check(one.place).sound


def test_documents_come_along(two):
    one, other = two
    Documents(one.place, "workloads").keep("a", "ours")
    Documents(other.place, "workloads").keep("a", "theirs")
    Documents(other.place, "workloads").keep("b", "new")
    distill(other.place)
    merge([other.place], one.place)
    found = Documents(one.place, "workloads")
    assert (found.read("a"), found.read("b")) == (b"ours", b"new")
    assert not (one.path / "_best").exists(), "bests belong to their store"


def test_damaged_files_stay_away(two, damage):
    one, other = two
    bad = sorted(other.files() - one.files())[0]
    damage(other.path / bad)
    done = merge([other.place], one.place)
    assert list(done.left) == [bad]
    assert done.rounds == 9
    assert check(one.place).sound


def test_merged_stores_answer_as_one(tmp_path, make_round):
    """As `RecordStore` writes and reads them."""
    one, other, out = (RecordStore(tmp_path / name) for name in ("one", "other", "all"))
    one.append(make_round("a", 0))
    other.append(make_round("b", 0, latency_s=1e-5))
    other.append(make_round("a", 0))
    other.keep_workload("conv", "{}")
    distill_to(one.location, Location.of(tmp_path / "best"))
    places = [one.location, other.location, Location.of(tmp_path / "best")]
    merge(places, out.location)
    for store in (RecordStore(tmp_path / "all"), out):
        assert len(store.read()) == 6
        assert store.best("conv", "llvm -mcpu=x -num-cores=2").run_id == "b"
        assert store.problems == []
        assert store.workload("conv") == "{}"
        assert store.has_round("a", 0)
    assert pq.read_table(tmp_path / "all").num_rows == 6


def test_stores_of_older_versions(tmp_path, folder):
    """Old names, old columns, documents as JSON."""
    old = tmp_path / "old"
    shutil.copytree(Path(__file__).parents[1] / "data" / "v1", old)
    (old / "_workloads").mkdir()
    stem = hashlib.sha256(b"conv").hexdigest()[:32]
    document = json.dumps({"workload_key": "conv", "dag": "{}"})
    (old / "_workloads" / f"{stem}.json").write_text(document)
    before = RecordStore(old).read()
    merge([Location.of(old)], folder.place)
    merge([Location.of(old)], folder.place)
    assert RecordStore(folder.path).read() == before
    assert RecordStore(folder.path).workload("conv") == "{}"
    assert check(folder.place).sound
    compact(Location.of(old), least=1)
    assert RecordStore(old).read() == before
    assert check(Location.of(old)).sound
    assert len(list(old.glob("*.parquet"))) == 1


def test_merging_nothing_is_an_error(folder, other_folder):
    with pytest.raises(StoreError, match="no records at"):
        merge([folder.place], other_folder.place)


def test_bests_of_each_device_and_version(folder, other_folder, make_record):
    rows = [
        make_record(round=i, index=j, device_id=f"d{i % 2}", rules_version=1 + i // 2,
                    latency_s=1e-3 * (1 + j), device_calibration_s=2e-3)
        for i in range(4)
        for j in range(3)
    ]  # fmt: skip
    for i in range(4):
        folder.write(rows[3 * i : 3 * i + 3])
    assert distill_to(folder.place, other_folder.place) == 4
    assert ids(other_folder) == ["run-0-0", "run-1-0", "run-2-0", "run-3-0"]
    (file,) = other_folder.files()
    assert file.startswith("distilled-")
    assert distill_to(folder.place, other_folder.place) == 4
    assert other_folder.files() == {file}


def test_bests_of_several_stores(two, tmp_path, make_round):
    one, other = two
    out = type(one)(tmp_path / "best")
    final = make_round(round=90, n=1, workload_key="w0", purpose=Purpose.final, latency_s=7e-3)
    distill_to(one.place, out.place)
    assert len(out.records()) == 5
    distill_to(other.place, out.place)
    other.write(final)
    assert distill_to(other.place, out.place) == 5
    assert len(out.files()) == 1
    for key in range(5):
        everything = [*one.records(), *other.records()]
        mine = [r for r in everything if r.workload_key == f"w{key}"]
        (best,) = (r for r in out.records() if r.workload_key == f"w{key}")
        assert best == best_of(mine)


def test_records_that_a_store_holds_are_not_written_again(two):
    one, other = two
    distill_to(one.place, other.place)
    assert len(set(ids(other))) == len(ids(other))
    assert check(other.place).sound


def test_a_store_into_itself(folder, make_round):
    folder.write(make_round())
    with pytest.raises(StoreError, match="into itself"):
        distill_to(folder.place, folder.place)
