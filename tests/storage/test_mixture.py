"""Whatever files records stand in, a store answers as a history in memory does."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import RecordStore
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.vacuum import vacuum
from storage.reading import Reading
from storage.schema import from_table, to_table
from storage.tables import encode
from tests.storage.conftest import START
from tilework.record import MemoryHistory, Purpose, Status, record_id
from tilework.target.identity import DeviceIdentity

TARGETS = ("llvm -mcpu=x -num-cores=2", "llvm -mcpu=y -num-cores=2")
WORKLOADS = ("conv", "dense", "pool")
DEVICES = (
    DeviceIdentity("a CPU", (("cores", "2"),), 2e-3),
    DeviceIdentity("a CPU", (("cores", "4"),), 2e-3),
    DeviceIdentity("a CPU", (("cores", "2"),), 3e-3),
)
RULES = 1


def some_round(make_record, number, rng):
    """A round of one task on one device: trials, finals or canaries, some of them failures."""
    device = rng.choice([None, *DEVICES])
    purpose = rng.choice([Purpose.search] * 3 + [Purpose.final, Purpose.canary])
    same = {
        "workload_key": rng.choice(WORKLOADS),
        "target": rng.choice(TARGETS),
        "rules_version": rng.choice([RULES, RULES, RULES, 2]),
        "purpose": purpose,
        "created_at": START + timedelta(seconds=rng.randrange(100), microseconds=number),
        "device_id": device.id if device else "",
        "device_calibration_s": device.calibration_s if device else None,
        "calibration_s": rng.choice([2e-3, 2.1e-3, 3e-3]),
        "host": rng.choice(["here", "there"]),
    }
    rows, writer = [], rng.choice("ab")
    for i in range(rng.randrange(1, 5)):
        status = rng.choice([Status.ok, Status.ok, Status.ok, Status.timeout])
        latency = rng.randrange(1, 9) * 1e-4 if status == Status.ok else None
        row = make_record("run", number, i, **same, status=status, latency_s=latency)
        rows.append(replace(row, record_id=record_id("run", number, writer, i)))
    return rows


def by_id(records):
    return {record.record_id: record for record in records}


def check(store, records, whole):
    used = MemoryHistory(
        sorted(
            (r for r in records if r.rules_version == RULES),
            key=lambda r: (r.created_at, r.run_id, r.round, r.record_id),
        )
    )
    for workload in WORKLOADS:
        for target in TARGETS:
            for device in (None, *DEVICES):
                asked = (workload, target, device)
                assert store.best(*asked) == used.best(*asked)
                assert store.hints(*asked) == used.hints(*asked)
                assert store.of(*asked) == used.of(*asked)
                assert store.best(*asked) == used.best(*asked)
    assert by_id(store.read()) == by_id(records) and len(store.read()) == len(records)
    assert store.keys() == sorted({(r.target, r.workload_key) for r in records})
    found = store.table(["record_id"]).column("record_id").to_pylist()
    assert sorted(found) == sorted(by_id(records))
    for number in whole:
        assert store.has_round("run", number)
    assert not store.has_round("run", 999) and not store.has_round("walk", 0)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6))
def test_a_store_says_what_a_history_in_memory_says(make_record, tmp_path_factory, seed):
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("mixture") / "records"
    stores = [RecordStore(path, rules_version=RULES) for _ in range(2)]
    records, whole = [], set()
    for number in range(rng.randrange(1, 14)):
        rows = some_round(make_record, number, rng)
        records += rows
        step = rng.randrange(8) if path.exists() else 8
        if step == 0:  # as other tools write, or an older version
            (path / f"by-hand-{number}.parquet").write_bytes(encode(to_table(rows)))
        elif step == 1:  # copied with another store, twice
            RecordStore(path / "team").append(rows)
            shutil.copytree(path / "team", path / "other team", dirs_exist_ok=True)
        else:
            rng.choice(stores).append(rows)
        if step != 0:
            whole.add(number)
        act = rng.randrange(6)
        if act == 0:
            compact(stores[0].location, least=1)
        elif act == 1:
            distill(stores[0].location)
        elif act == 2:
            again = rng.choice(records)
            stores[0].append([r for r in records if r.round == again.round])
            whole.add(again.round)
        elif act == 3:
            vacuum(stores[0].location)
        store = rng.choice(stores)
        if rng.random() < 0.4:
            check(store, records, whole)
    check(stores[0], records, whole)
    check(RecordStore(path, rules_version=RULES), records, whole)


def test_a_file_that_was_compacted_but_not_removed_counts_once(make_round, tmp_path):
    store = RecordStore(tmp_path)
    for number in range(3):
        store.append(make_round(round=number))
    rounds = {path.name: path.read_bytes() for path in tmp_path.glob("round-*")}
    compact(store.location, least=1)
    for name, content in rounds.items():
        (tmp_path / name).write_bytes(content)
    for reader in (store, RecordStore(tmp_path)):
        assert len(reader.read()) == 9 and len(reader.of("conv", TARGETS[0])) == 9
        assert reader.has_round("run", 2) and reader.problems == []


def test_a_compaction_in_the_middle_of_a_scan(make_record, tmp_path):
    store = RecordStore(tmp_path)
    for number in range(40):
        store.append([make_record(round=number, workload_key=f"w{number % 20}")])
    for keep in (None, ["record_id"]):
        whole = store.scan(keep)
        found = [next(whole)]
        compact(store.location, least=1)
        found += whole
        ids = [name for table in found for name in table.column("record_id").to_pylist()]
        assert len(ids) == len(set(ids)) == 40


def test_files_that_vanish_between_listing_and_reading(make_record, tmp_path, monkeypatch):
    """What a compaction of another process does, at the worst of moments."""
    store = RecordStore(tmp_path)
    for number in range(20):
        store.append([make_record(round=number, workload_key=f"w{number % 2}")])
    look, calls = Reading.look, []

    def and_compact(self, *, force=False):
        look(self, force=force)
        if self is not store._reading and not calls:
            calls.append(1)
            compact(store.location, least=1)

    for number, question in enumerate(
        (
            lambda other: len(other.of("w0", TARGETS[0])) == 10,
            lambda other: len(other.read()) == 21,
            lambda other: len(other.keys()) == 4,
            lambda other: other.best("w1", TARGETS[0]) is not None,
        )
    ):
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Reading, "look", and_compact)
            assert question(RecordStore(tmp_path)) and calls
        store.append([make_record(round=100 + number, workload_key=f"more {number}")])


def test_a_damaged_compacted_file_is_named(make_round, tmp_path):
    store = RecordStore(tmp_path)
    for number in range(3):
        store.append(make_round(round=number))
    compact(store.location, least=1)
    (path,) = tmp_path.glob("compact-*")
    path.write_bytes(path.read_bytes()[:-200])
    store.append(make_round(round=7))
    other = RecordStore(tmp_path)
    assert len(other.of("conv", TARGETS[0])) == 3 == len(other.read())
    assert f"{path.name}: not used" in other.problems[0]


def test_rounds_count_while_the_file_that_replaces_them_is_damaged(make_round, tmp_path):
    store = RecordStore(tmp_path)
    for number in range(3):
        store.append(make_round(round=number))
    rounds = {path.name: path.read_bytes() for path in tmp_path.glob("round-*")}
    compact(store.location, least=1)
    for name, content in rounds.items():
        (tmp_path / name).write_bytes(content)
    (path,) = tmp_path.glob("compact-*")
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    for ask in (lambda s: s.read(), lambda s: s.of("conv", TARGETS[0])):
        other = RecordStore(tmp_path)
        assert len(ask(other)) == 9
        assert f"{path.name}: not used" in other.problems[0]


def test_a_file_of_another_name_that_is_written_anew_is_read_again(make_round, tmp_path):
    store, path = RecordStore(tmp_path), tmp_path / "by-hand.parquet"
    for rows in (make_round("a"), make_round("b", n=5)):
        (tmp_path / ".new").write_bytes(encode(to_table(rows)))
        (tmp_path / ".new").rename(path)
        assert store.of("conv", TARGETS[0]) == rows == store.read()


@pytest.mark.parametrize("files", ["compacted", "rounds", "by hand"])
def test_threads_share_a_store(make_record, tmp_path, files):
    from concurrent.futures import ThreadPoolExecutor

    store = RecordStore(tmp_path)
    rows = [make_record(round=n, workload_key=f"w{n % 4}") for n in range(24)]
    store.append(rows)
    if files == "compacted":
        compact(store.location, least=1)
    elif files == "by hand":
        table = to_table(from_table(store.table()))
        for path in Path(tmp_path).glob("round-*"):
            path.unlink()
        (tmp_path / "all.parquet").write_bytes(encode(table))
    store = RecordStore(tmp_path)
    with ThreadPoolExecutor(6) as pool:
        some = [pool.submit(store.of, f"w{n % 4}", TARGETS[0]) for n in range(12)]
        all_of_it = [pool.submit(store.read) for _ in range(4)]
        more = pool.submit(store.append, [make_record(round=99, workload_key="more")])
        assert all(len(found.result()) == 6 for found in some)
        assert all(len(found.result()) in (24, 25) for found in all_of_it)
        more.result()
    assert len(store.read()) == 25
