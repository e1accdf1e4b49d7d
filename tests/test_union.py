"""Several histories as one: which of them is gone by; their order decides nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tilework.record import MemoryHistory, ModelLog, Purpose, Record, Status, layers_of
from tilework.target.identity import DeviceIdentity
from tilework.union import Union

HERE = DeviceIdentity("this CPU", (("cores", "2"),))
THERE = DeviceIdentity("that CPU", (("cores", "2"),))
FAR = DeviceIdentity("a far CPU", (("cores", "2"),))
KEY, TARGET = "conv", "llvm -mcpu=x -num-cores=2"


def record(name, device, latency, days=0, **changes):
    at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=days)
    made = Record(
        4, name, f"run-{name}", 0, at, KEY, "a conv", "net", 1e6, TARGET, device.name, "", 2, "0",
        0, 6, (1, 2), "", Status.ok, latency_s=latency, device_id=device.id,
    )  # fmt: skip
    return replace(made, **changes)


def test_what_this_device_measured_counts_wherever_it_stands():
    store = MemoryHistory([record("a", THERE, 1e-3)])
    package = MemoryHistory([record("b", HERE, 5e-3)])
    for layers in ((store, package), (package, store)):
        union = Union(layers)
        assert union.best(KEY, TARGET, HERE).record_id == "b"
        assert [r.record_id for r in union.hints(KEY, TARGET, HERE)] == ["a"]
        assert [r.record_id for r in union.of(KEY, TARGET)] == ["a", "b"]
    assert union.best(KEY, TARGET, FAR) is None


def test_finals_of_one_device_speak_for_all_that_was_measured_on_it_before():
    lucky = MemoryHistory([record("lucky", HERE, 1e-3, days=0)])
    final = MemoryHistory([record("final", HERE, 2e-3, days=1, purpose=Purpose.final)])
    later = MemoryHistory([record("later", HERE, 1.5e-3, days=2)])
    assert Union([lucky, final]).best(KEY, TARGET, HERE).record_id == "final"
    assert Union([later, lucky, final]).best(KEY, TARGET, HERE).record_id == "later"


def test_a_record_that_several_hold_counts_once():
    same = record("a", THERE, 1e-3)
    union = Union([MemoryHistory([same]), MemoryHistory([same, record("b", FAR, 2e-3)])])
    assert [r.record_id for r in union.of(KEY, TARGET)] == ["a", "b"]
    assert union.keys() == [(TARGET, KEY)] and union.workload_keys(TARGET) == [KEY]


def test_layers_and_what_they_keep_beside_records():
    one, other = MemoryHistory(), MemoryHistory([record("a", THERE, 1e-3)])
    union = Union([one, other])
    assert layers_of(union) == (one, other) and layers_of(one) == (one,)
    assert isinstance(union, ModelLog) and union.champion("llvm") is None
    other.keep_champion("llvm", "second")
    other.keep_workload(KEY, "document")
    assert union.champion("llvm", TARGET) == "second" and union.workload(KEY) == "document"
    one.keep_champion("llvm", "first")
    assert union.champion("llvm") == "first" and union.workload("other") is None
    assert union.origin(record("a", THERE, 1e-3)) == ""
