"""Measurements as arrays: the same from a store's columns as from its records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from storage import RecordStore
from tilework.record import MemoryHistory, Purpose, Status
from tilework.target.identity import DeviceIdentity
from tilework.trials import TrialLog, by_device, gathered, trials_of

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture
def records(make_record):
    one = make_record(decisions=(1, 2), latency_s=1e-3, device_id="a-1", record_id="r0")
    return [
        one,
        replace(one, record_id="r1", decisions=(3,), status=Status.crashed, latency_s=None),
        replace(one, record_id="r2", decisions=(4, 5), device_id="", calibration_s=2e-3),
        replace(one, record_id="r3", purpose=Purpose.final, latency_s=9e-4),
        replace(one, record_id="r4", purpose=Purpose.canary),
        replace(one, record_id="r5", status=Status.worker_lost, latency_s=None),
        replace(one, record_id="r6", decisions=(6, 7), device_calibration_s=2.0),
        replace(one, record_id="r7", decisions=(6, 8), device_calibration_s=1.0),
    ]


def test_a_store_gives_the_same_arrays_as_its_records(tmp_path, records):
    store = RecordStore(tmp_path / "records")
    store.append(records)
    assert isinstance(store, TrialLog) and not isinstance(MemoryHistory(), TrialLog)
    (found,) = store.trials(TARGET, ["conv", "no such"])
    kept = store.of("conv", TARGET)
    kept.sort(key=lambda r: (r.created_at, r.record_id))
    (same,) = trials_of(MemoryHistory(kept), TARGET, ["conv", "no such"])
    assert len(found) == 6 and found.devices == same.devices
    for name in ("rules_version", "sketch_id", "decisions", "offsets", "latency_s", "final",
                 "device", "calibration_s"):  # fmt: skip
        assert np.array_equal(
            getattr(found, name), getattr(same, name), equal_nan=name[0] == "c"
        ), name
        assert getattr(found, name).dtype == getattr(same, name).dtype
    assert found.rows(np.array([0, 2]), 2).tolist() == [[1, 2], [4, 5]]
    assert list(RecordStore(tmp_path / "none").trials(TARGET, ["conv"])) == []


def test_devices_and_speeds_are_told_apart(records):
    found = gathered(records, "conv", TARGET)
    parts = {one.device: one.where.tolist() for one in by_device(found)}
    name = records[0].device
    assert parts == {name: [2], "a-1": [5], "a-1 2": [4], "a-1 3": [0, 1, 3]}
    assert by_device(found, DeviceIdentity("another")) == []
    (own,) = by_device(found, DeviceIdentity(name))
    assert own.where.tolist() == [2]
