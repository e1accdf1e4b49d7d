"""Rounds become few files; nothing is lost or doubled, wherever it is interrupted."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage.compacts import (
    ROWS_A_GROUP,
    key_ranges,
    pack_names,
    replaces,
    unpack_names,
)
from storage.maintenance import claim as claims
from storage.maintenance import compact as compacting
from storage.maintenance.claim import Claimed, claim
from storage.maintenance.compact import compact
from storage.maintenance.holdings import look
from storage.names import is_compact


@pytest.fixture
def filled(folder, make_round):
    """30 rounds of 5 workloads on two targets, out of order."""
    for i in range(30):
        key = {"workload_key": f"w{i * 7 % 5}", "target": f"llvm {i % 2}"}
        folder.write(make_round(round=29 - i, n=4, **key))
    return folder


def only(names):
    (name,) = names
    return name


def row_groups(metadata, workload_key, target):
    key = (target, workload_key)
    return [i for i, (low, high) in enumerate(key_ranges(metadata)) if low <= key <= high]


def test_rounds_become_one_file_of_the_same_records(filled):
    before, names = filled.records(), filled.files()
    done = compact(filled.place)
    assert filled.records() == before
    name = only(filled.files())
    assert is_compact(name)
    assert (done.rounds, done.made, done.rows) == (30, [name], 120)
    assert set(done.removed) == names
    assert replaces(pq.read_metadata(filled.path / name)) == names


def test_rows_are_sorted_and_groups_found_by_key(folder, make_round, monkeypatch):
    monkeypatch.setattr("storage.compacts.ROWS_A_GROUP", 10)
    for i in range(40):
        key = {"workload_key": f"w{i * 7 % 10}", "target": f"llvm {i % 3}"}
        folder.write(make_round(round=i, n=3, **key))
    compact(folder.place)
    path = folder.path / only(folder.files())
    table = pq.read_table(path)
    order = ["target", "workload_key", "created_at", "record_id"]
    assert table.equals(table.sort_by([(name, "ascending") for name in order]))
    file = pq.ParquetFile(path)
    assert file.num_row_groups > 5
    read = 0
    for i in range(30):
        key = (f"w{i * 7 % 10}", f"llvm {i % 3}")
        groups = row_groups(file.metadata, *key)
        rows = file.read_row_groups(groups).to_pylist()
        mine = [r for r in rows if (r["workload_key"], r["target"]) == key]
        all_mine = [r for r in table.to_pylist() if (r["workload_key"], r["target"]) == key]
        assert mine == all_mine
        read += len(groups)
    assert read < 30 * file.num_row_groups / 2
    assert row_groups(file.metadata, "w9", "zzz") == []


def test_a_key_larger_than_a_group(folder, make_record, make_round):
    rows = [make_record(index=i, round=0) for i in range(2 * ROWS_A_GROUP + 5000)]
    folder.write(rows)
    folder.write(make_round(round=1, n=2, workload_key="a"))
    folder.write(make_round(round=2, n=2, workload_key="z"))
    compact(folder.place, least=1)
    metadata = pq.read_metadata(folder.path / only(folder.files()))
    assert metadata.num_rows == len(rows) + 4
    assert len(row_groups(metadata, "conv", rows[0].target)) >= 2
    assert len(key_ranges(metadata)) >= 2


def test_few_rounds_are_left_alone(folder, make_round):
    for i in range(3):
        folder.write(make_round(round=i))
    names = folder.files()
    done = compact(folder.place)
    assert folder.files() == names
    assert (done.rounds, done.made, done.removed) == (0, [], [])


def test_a_large_store_becomes_several_files(folder, make_round):
    for i in range(40):
        folder.write(make_round(round=i, n=5, workload_key=f"w{i % 8}"))
    before = folder.records()
    compact(folder.place, rows_a_file=60)
    assert folder.records() == before
    assert len(folder.files()) == 3
    held = look(folder.place)
    names = [name for found in held.compacts.values() for name in found.rounds]
    assert len(names) == len(set(names)) == 40, "each round is in one file, with its whole key"


def test_later_rounds_are_merged_in_time(folder, make_round):
    made = []
    for night in range(9):
        for i in range(20):
            made += [folder.write(make_round(round=100 * night + i, workload_key=f"w{i % 3}"))]
        compact(folder.place)
    assert len(folder.records()) == 9 * 20 * 3
    assert len({r.record_id for r in folder.records()}) == 9 * 20 * 3
    assert len(folder.files()) <= 4
    rounds = [found.rounds for found in look(folder.place).compacts.values()]
    assert frozenset().union(*rounds) == set(made), "rounds are named through merges"


def test_a_round_that_is_written_again_is_replaced(filled, make_round):
    compact(filled.place)
    before = filled.records()
    key = {"workload_key": "w0", "target": "llvm 0"}
    again = filled.write(make_round(round=29, n=4, **key))  # as i = 0 in the fixture
    assert look(filled.place).replaced == [again]
    compact(filled.place)
    assert filled.records() == before


def test_killed_before_the_old_files_are_removed(filled, monkeypatch):
    before, names = filled.records(), filled.files()

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compacting, "_remove", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(filled.place)
    held = look(filled.place)
    assert set(held.replaced) == names
    assert len(held.compacts) == 1
    compact(filled.place)
    assert filled.records() == before
    assert len(filled.files()) == 1


def test_a_damaged_successor_replaces_nothing(filled, monkeypatch, damage):
    before = filled.records()
    monkeypatch.setattr(compacting, "_remove", lambda *args: None)
    compact(filled.place)
    monkeypatch.undo()
    (made,) = look(filled.place).compacts
    damage(filled.path / made)
    done = compact(filled.place)
    assert made in done.left
    (filled.path / made).unlink()
    assert filled.records() == before


def test_what_was_not_written_right_replaces_nothing(filled, monkeypatch):
    before = filled.records()
    whole = type(filled.place).create

    def torn(place, name, content, **options):
        content = bytearray(content)
        if is_compact(name):
            content[300] ^= 0xFF
        return whole(place, name, bytes(content), **options)

    monkeypatch.setattr(type(filled.place), "create", torn)
    with pytest.raises(Exception, match="was not written as it should be"):
        compact(filled.place)
    assert filled.records() == before


def test_damaged_and_foreign_files_are_left_alone(filled, make_round, damage):
    bad = filled.write(make_round(round=77))
    damage(filled.path / bad)
    short = filled.write(make_round(round=78))
    (filled.path / short).write_bytes((filled.path / short).read_bytes()[:-30])
    done = compact(filled.place)
    assert {bad, short} <= done.left.keys()
    assert {bad, short} <= filled.files()
    assert len(filled.files()) == 3


def test_two_files_with_the_same_rounds_become_one(filled, monkeypatch):
    """As two compactions at once leave them."""
    before = filled.records()
    monkeypatch.setattr(compacting, "_remove", lambda *args: None)
    compact(filled.place)
    (first,) = look(filled.place).compacts
    kept = (filled.path / first).read_bytes()
    monkeypatch.undo()
    compact(filled.place)
    (filled.path / first).unlink()
    # the same rounds but one in another file
    for record in before[:4]:
        filled.write([record])
    for i in range(0, len(before), 4):
        filled.write(before[i : i + 1])
    compact(filled.place)
    (filled.path / first).write_bytes(kept)
    assert len(filled.records()) > len(before)
    ids = {r.record_id for r in before}
    compact(filled.place)
    assert {r.record_id for r in filled.records()} == ids


def test_one_keeper_at_a_time(filled):
    with claim(filled.place), pytest.raises(Claimed, match="another process"):
        compact(filled.place)
    compact(filled.place)


def test_a_killed_keeper_holds_nothing(filled):
    hold = (
        "import sys, time\n"
        "from storage.files import Location\n"
        "from storage.maintenance.claim import claim\n"
        "with claim(Location.of(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(filled.path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Claimed):
            compact(filled.place)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    compact(filled.place)
    assert len(filled.files()) == 1


def test_a_claim_on_an_object_store_ends_when_it_is_not_renewed(filled, monkeypatch):
    from dataclasses import replace

    remote = replace(filled.place, local=False)
    with claim(remote) as beat:
        beat()
        with pytest.raises(Claimed), claim(remote):
            pass
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + claims.STALE_S + 1)
        with claim(remote):
            assert len(claims.void_claims(remote)) == 1
    assert claims.void_claims(remote) == []


def test_names_in_a_footer(tmp_path):
    names = {f"round-{i}.parquet" for i in range(1000)}
    assert unpack_names(pack_names(names)) == names
    assert unpack_names(b"") == unpack_names(pack_names([])) == frozenset()
    with pytest.raises(ValueError, match="damaged"):
        unpack_names(pack_names(names)[:-8])
