"""The manifest of a release, and which records a module is made from."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tasks import patience
from tasks.release import MANIFEST, Entry, Made, Manifest, Source, sha256_of, sources_of
from tests.hosts import x86
from tilework.errors import ModuleError
from tilework.record import SCHEMA_VERSION, MemoryHistory, Record, Status
from tilework.target import Target
from tilework.target.identity import DeviceIdentity

HERE = DeviceIdentity("here")
THERE = DeviceIdentity("there")
TARGET = Target(x86("znver4", 2))
MADE = Made("net-b1", str(TARGET), HERE.id, "1.0", 3, {"a": (Source("r1", "0: 1"),), "b": ()})


def sources(*given):
    """Ids of the records that decide, by workload."""
    return {key: [one.record for one in found] for key, found in sources_of(*given).items()}


def record(name, key="a", latency=1e-3, target=TARGET, device=HERE, age=0):
    return Record(
        schema_version=SCHEMA_VERSION, record_id=name, run_id="run", round=0,
        created_at=datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=age), workload_key=key,
        workload=key, network="net", flops=1e6, target=str(target), device=device.name,
        host="host", num_cores=2, engine_version="1", sketch_id=0, rules_version=1,
        decisions=(1,), code_hash=name, status=Status.ok, latency_s=latency,
        device_id=device.id,
    )  # fmt: skip


def test_the_best_of_the_device_decides_alone():
    history = MemoryHistory(
        [
            record("slow", latency=2e-3),
            record("fast"),
            record("faster", latency=1e-4, device=THERE),
        ]
    )
    assert sources(["a", "b"], TARGET, history, HERE) == {"a": ["fast"], "b": []}


def test_without_a_record_of_its_own_a_device_takes_hints_and_relatives():
    history = MemoryHistory(
        [
            record("old", device=THERE, age=2),
            record("one", key="b", target=TARGET.with_cores(1)),
        ]
    )
    assert sources(["a", "b"], TARGET, history, HERE) == {"a": ["old"], "b": ["one"]}


def test_for_a_machine_that_is_elsewhere_all_records_count():
    history = MemoryHistory([record("there", device=THERE)])
    assert sources(["a"], TARGET, history, None) == {"a": ["there"]}


def test_what_changed_is_said_in_a_few_words():
    assert MADE.against(MADE) == ""
    assert MADE.against(replace(MADE, engine="0.9")) == "it was compiled by version 0.9"
    assert MADE.against(replace(MADE, fingerprint="x")) == "the network is another"
    later = {"a": (Source("r1", "0: 2"),), "b": ()}
    assert MADE.against(replace(MADE, sources=later)) == (
        "1 of 2 tasks have another best schedule"
    )


def test_a_later_record_of_the_same_schedule_changes_nothing():
    later = {"a": (Source("r2", "0: 1"),), "b": ()}
    assert MADE.against(replace(MADE, sources=later)) == ""


def test_a_manifest_is_written_when_a_full_disk_has_room_again(tmp_path, entry, monkeypatch):
    full = [OSError(errno.ENOSPC, "No space left on device")]
    real = os.fsync

    def fsync(number):
        if full:
            raise full.pop()
        real(number)

    told = []
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(patience.patiently, "__defaults__", ((0.0,), lambda _: None))
    Manifest(tmp_path).keep("net.tw", entry, told.append)
    assert Manifest(tmp_path).entry("net.tw") == entry
    assert len(told) == 1
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.fixture
def entry(tmp_path):
    (tmp_path / "net.tw").write_bytes(b"module")
    digest = sha256_of(tmp_path / "net.tw")
    return Entry("net", "f32", digest, MADE, 1.5, 2.5, 1e-6, "onnxruntime")


def test_an_entry_is_found_again(tmp_path, entry):
    Manifest(tmp_path).keep("net.tw", entry, print)
    assert Manifest(tmp_path).entry("net.tw") == entry
    assert Manifest(tmp_path).entry("other.tw") is None
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_file_that_is_not_the_one_described_is_unknown(tmp_path, entry):
    Manifest(tmp_path).keep("net.tw", entry, print)
    (tmp_path / "net.tw").write_bytes(b"another")
    assert Manifest(tmp_path).entry("net.tw") is None
    (tmp_path / "net.tw").unlink()
    assert Manifest(tmp_path).entry("net.tw") is None


def test_a_refusal_is_remembered_where_no_module_was_ever_kept(tmp_path):
    refused = Entry("net", "f32", refused=MADE, reason="its output is wrong", wrong=True)
    Manifest(tmp_path).keep("net.tw", refused, print)
    assert Manifest(tmp_path).entry("net.tw") == refused


def test_two_writers_keep_each_others_entries(tmp_path, entry):
    first, second = Manifest(tmp_path), Manifest(tmp_path)
    first.keep("net.tw", entry, print)
    second.keep("net2.tw", replace(entry, network="net2"), print)
    assert set(json.loads((tmp_path / MANIFEST).read_text())["modules"]) == {"net.tw", "net2.tw"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1, "modules": {"a": {}}}', "3"])
def test_a_damaged_manifest_makes_every_module_count_as_changed(tmp_path, text, entry):
    (tmp_path / MANIFEST).write_text(text)
    manifest = Manifest(tmp_path)
    assert "damaged" in manifest.damaged
    assert manifest.entry("net.tw") is None
    manifest.keep("net.tw", entry, print)
    assert Manifest(tmp_path).entry("net.tw") == entry


def test_a_manifest_of_a_newer_version_is_left_alone(tmp_path):
    (tmp_path / MANIFEST).write_text('{"format": 99, "units": {}}')
    with pytest.raises(ModuleError, match="newer Tilework"):
        Manifest(tmp_path)


def test_a_missing_folder_is_one_clear_line_when_written(tmp_path, entry):
    manifest = Manifest(tmp_path / "gone")
    with pytest.raises(ModuleError, match=r"cannot write .*release\.json: No such file"):
        manifest.keep("net.tw", entry, print)


def test_what_a_killed_writer_left_is_cleared_away(tmp_path, entry):
    left, young = tmp_path / f".{MANIFEST}.1.part", tmp_path / f".{MANIFEST}.2.part"
    for path in (left, young):
        path.write_text("half")
    os.utime(left, (0, 0))
    Manifest(tmp_path).keep("net.tw", entry, print)
    assert [path.name for path in tmp_path.glob(".*")] == [young.name]
