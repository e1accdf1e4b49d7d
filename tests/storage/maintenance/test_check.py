"""What is wrong with a store is said, one line each, and mended; what can be read is kept."""

import errno
import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.bests import KIND as BESTS
from storage.documents import Documents
from storage.maintenance import compact as compacting
from storage.maintenance.check import Fault, check
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.holdings import look
from storage.maintenance.repair import damaged, repair
from storage.names import RoundName
from storage.schema import SCHEMA, VERSION_KEY, to_table
from tilework.errors import StoreError


@pytest.fixture
def filled(folder, make_round):
    for i in range(20):
        folder.write(make_round(round=i, n=4, workload_key=f"w{i % 5}"))
    Documents(folder.place, "workloads").keep("w0", "{}")
    distill(folder.place)
    return folder


def faults(folder):
    return [(f.fault, f.name) for f in check(folder.place).findings]


def test_a_sound_store(filled):
    found = check(filled.place)
    assert found.sound
    assert (found.files, found.rows) == (20, 80)
    assert found.documents >= 2
    compact(filled.place)
    found = check(filled.place)
    assert found.sound
    assert (found.files, found.rows) == (1, 80)


def test_a_missing_store_has_nothing(folder):
    assert check(folder.place).files == 0


def test_damaged_files_are_told_and_set_aside(filled, damage):
    first, second, *_ = sorted(filled.files())
    damage(filled.path / first)
    short = filled.path / second
    short.write_bytes(short.read_bytes()[:-30])
    before = {name: (filled.path / name).read_bytes() for name in (first, second)}
    assert set(faults(filled)) == {(Fault.damaged, first), (Fault.damaged, second)}
    done = repair(filled.place)
    assert sorted(done.lost) == [first, second]
    assert check(filled.place).sound
    assert len(filled.records()) == 72
    assert damaged(filled.place) == before
    assert pq.read_table(filled.path).num_rows == 72
    assert repair(filled.place).lines == []


def test_of_a_damaged_compacted_file_the_sound_part_is_saved(
    folder, make_round, damage, monkeypatch
):
    monkeypatch.setattr("storage.compacts.ROWS_A_GROUP", 40)
    rows = []
    for i in range(40):
        rows += make_round(round=i, n=10, workload_key=f"w{i // 4}")
        folder.write(rows[-10:])
    distill(folder.place)
    compact(folder.place)
    (name,) = folder.files()
    metadata = pq.read_metadata(folder.path / name)
    assert metadata.num_row_groups == 10
    damage(folder.path / name, metadata.row_group(3).column(1).data_page_offset + 40)
    assert faults(folder) == [(Fault.damaged, name)]
    done = repair(folder.place)
    assert done.lost == [name]
    assert "360 rows of it are saved" in done.lines[0]
    assert check(folder.place).sound
    saved = folder.records()
    assert len(saved) == 360
    lost = [r for r in rows if r.record_id not in {s.record_id for s in saved}]
    assert {r.workload_key for r in lost} == {"w3"}
    # the lost rounds may be written again: no footer says that they are there
    for round in {r.round for r in lost}:
        folder.write([r for r in lost if r.round == round])
    assert look(folder.place).replaced == []
    compact(folder.place, least=1)
    assert folder.records() == sorted(rows, key=lambda r: r.record_id)


def test_a_damaged_compacted_file_whose_rounds_are_still_there(filled, damage, monkeypatch):
    before = filled.records()
    monkeypatch.setattr(compacting, "_remove", lambda *args: None)
    compact(filled.place)
    monkeypatch.undo()
    (made,) = look(filled.place).compacts
    damage(filled.path / made)
    repair(filled.place)
    assert filled.records() == before
    assert check(filled.place).sound


def test_unfinished_compactions_are_finished(filled, monkeypatch):
    before = filled.records()
    monkeypatch.setattr(compacting, "_remove", lambda *args: None)
    compact(filled.place)
    monkeypatch.undo()
    assert {fault for fault, _ in faults(filled)} == {Fault.unfinished}
    done = repair(filled.place)
    assert "20 files were removed" in done.lines[0]
    assert filled.records() == before
    assert check(filled.place).sound


def test_records_that_stand_twice(filled, make_round):
    before = filled.records()
    compact(filled.place)
    part = [before[0], before[1]]
    for record in part:
        filled.write([record])  # a part of a round that is compacted already
    (made,) = look(filled.place).compacts
    assert {fault for fault, _ in faults(filled)} == {Fault.duplicate}
    assert made in {name for _, name in faults(filled)}
    repair(filled.place)
    assert filled.records() == before
    assert check(filled.place).sound


def test_records_twice_in_one_file(filled, make_round):
    rows = make_round(round=50)
    name = filled.write(rows)
    (filled.path / name).unlink()
    pq.write_table(to_table([*rows, rows[0]]), filled.path / name, write_page_checksum=True)
    assert {fault for fault, _ in faults(filled)} == {Fault.misnamed, Fault.duplicate}
    repair(filled.place)
    assert check(filled.place).sound
    assert len(filled.records()) == 83


def test_a_file_that_was_renamed(filled):
    name = sorted(filled.files())[0]
    wrong = str(replace(RoundName.parse(name), round=999))
    (filled.path / name).rename(filled.path / wrong)
    assert faults(filled) == [(Fault.misnamed, wrong)]
    repair(filled.place)
    assert name in filled.files()
    assert check(filled.place).sound


def test_files_of_a_newer_schema_and_of_others_stay(filled):
    newer = SCHEMA.with_metadata({VERSION_KEY: b"99"})
    pq.write_table(newer.empty_table(), filled.path / "newer.parquet")
    pq.write_table(pa.table({"x": [1]}), filled.path / "strange.parquet")
    assert set(faults(filled)) == {
        (Fault.foreign, "newer.parquet"),
        (Fault.foreign, "strange.parquet"),
    }
    done = repair(filled.place)
    assert done.lines == []
    assert len(done.left) == 2
    assert "update Tilework" in done.left[0]
    compact(filled.place)
    assert {"newer.parquet", "strange.parquet"} < filled.files()


def test_files_of_an_older_version(filled):
    before = filled.records()
    old = Path(__file__).parents[1] / "data" / "v1"
    for path in old.iterdir():
        shutil.copy(path, filled.path)
    assert {fault for fault, _ in faults(filled)} == {Fault.old}
    assert "2 files of older versions" in repair(filled.place).lines[0]
    assert check(filled.place).sound
    assert len(filled.records()) > len(before)


def test_rows_that_cannot_be(filled, make_record):
    odd = [
        make_record(round=70, index=0, latency_s=None),
        make_record(round=70, index=1, latency_s=-1.0),
        make_record(round=70, index=2, flops=math.nan),
        make_record(round=70, index=3, created_at=datetime.now(UTC) + timedelta(days=3)),
        make_record(round=70, index=4),
    ]
    name = filled.write(odd)
    found = check(filled.place)
    assert {f.name for f in found.findings} == {name}
    assert {f.fault for f in found.findings} == {Fault.impossible}
    said = "\n".join(f.text for f in found.findings)
    assert "1 row with status ok and no latency, the first is 'run-70-0'" in said
    assert "1 row from the future" in said
    assert len(found.findings) == 4
    done = repair(filled.place)
    assert len(done.left) == 4
    assert len(filled.records()) == 85


def test_damaged_documents(filled, damage):
    workload = filled.path / "_workloads" / "w0.parquet"
    content = workload.read_bytes()[:-20]
    workload.write_bytes(content)
    best = next((filled.path / f"_{BESTS}").iterdir())
    best.write_bytes(b"nothing")
    assert {(f, n) for f, n in faults(filled)} == {
        (Fault.document, "_workloads/w0.parquet"),
        (Fault.document, f"_{BESTS}/{best.name}"),
    }
    done = repair(filled.place)
    assert done.lost == ["_workloads/w0.parquet"]
    assert damaged(filled.place) == {"_workloads/w0.parquet": content}
    assert not best.exists()
    assert check(filled.place).sound


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),
        OSError("When reading: AWS Error ACCESS_DENIED during HeadObject operation"),
    ],
    ids=["permission", "device", "s3"],
)
def test_a_filesystem_that_fails_damages_nothing(filled, monkeypatch, error):
    """What cannot be read now, or by us, is no damaged file: nothing may be set aside."""

    def fails(*args, **kwargs):
        raise error

    names = filled.files()
    monkeypatch.setattr(pq, "ParquetFile", fails)
    for act in (check, repair, compact):
        with pytest.raises(StoreError, match="cannot read the record store"):
            act(filled.place)
    assert filled.files() == names
