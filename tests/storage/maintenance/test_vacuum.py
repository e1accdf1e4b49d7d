"""What nobody needs goes; what somebody may need stays."""

import os
import time

from storage.bests import KIND as BESTS
from storage.documents import Documents
from storage.maintenance import compact as compacting
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.vacuum import LEFTOVER_S, vacuum


def test_nothing_to_remove(folder, make_round):
    folder.write(make_round())
    distill(folder.place)
    before = sorted(path for path in folder.path.rglob("*") if "_claim" not in str(path))
    assert vacuum(folder.place).removed == []
    after = sorted(path for path in folder.path.rglob("*") if "_claim" not in str(path))
    assert before == after


def test_leftovers_of_killed_writers(folder, make_round):
    folder.write(make_round())
    Documents(folder.place, "workloads").keep("w", "{}")
    old, new = folder.path / ".round-1.abc.parquet", folder.path / ".round-2.abc.parquet"
    hidden = folder.path / "_workloads" / ".w.1234.parquet"
    for path in (old, new, hidden):
        path.write_bytes(b"half")
    long_ago = time.time() - LEFTOVER_S - 10
    for path in (old, hidden):
        os.utime(path, (long_ago, long_ago))
    done = vacuum(folder.place)
    assert sorted(done.removed) == [".round-1.abc.parquet", "_workloads/.w.1234.parquet"]
    assert done.lines == ["2 leftovers of killed writers removed"]
    assert new.exists()


def test_replaced_files(folder, make_round, monkeypatch):
    for i in range(20):
        folder.write(make_round(round=i))
    before = folder.records()
    monkeypatch.setattr(compacting, "_remove", lambda *args: None)
    compact(folder.place)
    monkeypatch.undo()
    assert len(vacuum(folder.place).removed) == 20
    assert folder.records() == before


def test_bests_of_gone_records(folder, make_round):
    name = folder.write(make_round())
    distill(folder.place)
    (folder.path / name).unlink()
    (gone,) = vacuum(folder.place).removed
    assert gone.startswith(f"_{BESTS}/")
