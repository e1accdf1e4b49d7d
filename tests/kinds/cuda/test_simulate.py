"""Invented latencies: repeatable, biased term by term, marked, and never of a real device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.network import network
from tests.conformance.tune import options
from tilework import extract_tasks
from tilework.errors import DeviceError
from tilework.kinds.cuda.features.terms import TERMS
from tilework.kinds.cuda.simulate import bias, fact, jitter, latency_s
from tilework.lower.kernel import Kernel
from tilework.measure import Measurer
from tilework.measure.device import device_of
from tilework.record import MemoryHistory, Status
from tilework.search.tune import tune
from tilework.target import Target

TARGET = Target("cuda -model=a100 -run=simulated")


def facts(**seconds):
    """Of a kernel of two launches that waits for nothing but what is named."""
    return {fact(t, k): seconds.get(t, 1e-9) for t in TERMS for k in range(2)}


def test_equal_code_takes_equal_time_and_other_code_a_little_else():
    some = facts(dram=1e-3)
    assert latency_s(some, "a100", "x") == latency_s(dict(some), "a100", "x")
    found = [latency_s(some, "a100", str(i)) for i in range(200)]
    assert 0.02 < np.std(np.log(found)) < 0.06


def test_devices_have_biases_of_their_own_and_they_show():
    found = [bias(d, t) for d in ("a100", "h100", "rtx4090", "l4") for t in TERMS]
    assert len(set(found)) == len(found)
    assert 0.2 < np.std(np.log(found)) < 0.6
    slow = latency_s(facts(dram=1e-3), "a100", "x") / latency_s(facts(latency=1e-3), "a100", "x")
    assert slow == pytest.approx(bias("a100", "dram") / bias("a100", "latency"), rel=1e-2)
    twice = latency_s(facts(dram=2e-3), "a100", "x") / latency_s(facts(dram=1e-3), "a100", "x")
    assert twice == pytest.approx(2, rel=1e-2)


def test_samples_differ_as_little_as_measured_ones():
    found = np.log([jitter("code", i) for i in range(300)])
    assert 0.002 < found.std() < 0.008 and abs(found.mean()) < 0.002


def test_the_device_says_that_it_is_simulated_and_runs_nothing():
    device = device_of(TARGET)
    assert device.name(TARGET) == "NVIDIA A100 (simulated)"
    assert (
        device_of(Target("cuda -arch=sm_90 -run=simulated")).name(
            Target("cuda -arch=sm_90 -run=simulated")
        )
        == "NVIDIA GPU of sm_90 (simulated)"
    )
    assert not device.settings().verify
    with pytest.raises(DeviceError, match="computes nothing"):
        device.allocate((1 << 40,), "float32").read()
    kernel = Kernel("k", (), "hash", (), 0, 0, facts(fma=1e-3))
    call = device.load(kernel).bind([], None, 1)
    with device.stopwatch() as watch:
        seconds = [watch.time(call, 1).seconds for _ in range(3)]
    again = device.load(kernel).bind([], None, 1)
    assert seconds == [again() for _ in range(3)]
    with pytest.raises(DeviceError, match="kernel k cannot be simulated: its facts have no"):
        device.load(Kernel("k", (), "hash", (), 0, 0, {"registers": 32.0}))


@pytest.mark.parametrize(
    ("trials", "runs"), [(3, 1), pytest.param(9, 2, marks=pytest.mark.cuda_full)]
)
def test_a_search_on_it_is_marked_and_the_same_every_time(trials, runs, needs_nvrtc):
    tasks = list(extract_tasks(network(), TARGET)[0])[: trials // 3]
    found = []
    for _ in range(runs):
        history = MemoryHistory()
        with Measurer(TARGET, build_processes=1) as measurer:
            tune(tasks, None, options(trials), history, measurer, run_id="run")
        records = sorted(history.read(), key=lambda r: (r.round, r.record_id[-4:]))
        assert {r.device for r in records} == {"NVIDIA A100 (simulated)"}
        assert {r.status for r in records} <= {Status.ok, Status.unfit}
        assert all(r.max_rel_error is None for r in records)
        found.append(
            [(r.round, r.record_id[-4:], r.decisions, r.latency_samples) for r in records]
        )
    assert all(one == found[0] for one in found)
