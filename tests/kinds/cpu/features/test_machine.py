"""The draft model's numbers: from a table, or from what was measured on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from tests.hosts import small_caches, x86
from tests.te import workloads
from tilework import te
from tilework.kinds.cpu.calibrate.throughput import measure_parameters
from tilework.kinds.cpu.machine import Machine
from tilework.kinds.cpu.parameters import (
    FORMAT,
    Parameters,
    Shared,
    default_path,
    machine_key,
    measured,
    save,
)  # fmt: skip
from tilework.model.draft import draft_of
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("znver4", 2))
ENTRY = Parameters(
    clock_hz=3.6e9,
    fma_ports=1.02,
    load_ports=0.99,
    broadcast_ports=1.9,
    latency=3.9,
    l2_rate=33.0,
    threads={1: Shared(23.0, 9.2, 4.0), 8: Shared(20.0, 3.0, 20000.0)},
    measured_at="2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilework" / "machine.json"


def test_the_table_serves_where_nothing_was_measured(cache):
    assert default_path() == cache
    zen4, zen5 = Machine.of(TARGET), Machine.of(Target(x86("znver5", 2)))
    assert (zen4.fma_ports, zen4.load_ports, zen4.broadcast_ports) == (1, 1, 2)
    assert (zen5.fma_ports, zen5.load_ports) == (2, 2)
    client = x86("icelake-client", 1)  # hypervisors give servers such names
    server = Machine.of(Target(f"{client} -mattr=+avx512fp16"))
    assert (server.fma_ports, Machine.of(Target(client)).fma_ports) == (2, 1)
    haswell = Machine.of(Target(x86("haswell", 1)))
    assert (haswell.lanes, haswell.fma_ports) == (8, 2)
    assert not cache.exists()  # nothing is measured implicitly


def test_measured_numbers_are_kept_and_used(cache):
    save(TARGET, ENTRY)
    assert measured(TARGET) == ENTRY
    machine = Machine.of(TARGET)
    assert (machine.clock_hz, machine.fma_ports, machine.l2_rate) == (3.6e9, 1.02, 33.0)
    assert (machine.l3_rate, machine.fork_cycles) == (23.0, 4.0)
    assert machine.lanes == 16
    many = Machine.of(TARGET.with_cores(6))
    assert (many.memory_rate, many.fork_cycles) == (3.0, 20000.0)
    other = Target(x86("znver5", 2))
    assert measured(other) is None
    save(other, ENTRY)
    assert set(json.loads(cache.read_text())["machines"]) == {
        machine_key(TARGET), machine_key(other),
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"format": "tilework-machine-9", "machines": {}}),
        json.dumps({"format": FORMAT, "machines": []}),
        json.dumps({"format": FORMAT, "machines": {machine_key(TARGET): {"clock_hz": 1}}}),
        json.dumps(
            {"format": FORMAT, "machines": {machine_key(TARGET): asdict(ENTRY) | {"latency": -1}}}
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_ignored(cache, text):
    cache.parent.mkdir(parents=True)
    cache.write_text(text)
    assert measured(TARGET) is None
    assert Machine.of(TARGET).clock_hz == 3.8e9
    save(TARGET, ENTRY)
    assert measured(TARGET) == ENTRY


def test_predictions_depend_on_the_file(cache):
    task = SearchTask(te.ComputeDAG(workloads.matmul(64, 64, 64, free=True)), TARGET, "dense")
    sketch = SearchSpace.derive(task.compute_dag, TARGET).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 20)
    table = draft_of(sketch.target).seconds(sketch, rows)
    save(TARGET, ENTRY)
    assert not np.array_equal(draft_of(sketch.target).seconds(sketch, rows), table)
    assert np.array_equal(
        draft_of(sketch.target).seconds(sketch, rows),
        draft_of(sketch.target).seconds(sketch, rows),
    )


def test_the_measurement_gives_plausible_numbers(monkeypatch):
    small_caches(monkeypatch)
    found = measure_parameters(Target("llvm -num-cores=1"))
    assert 0.2e9 < found.clock_hz < 10e9
    assert 0.05 < found.fma_ports < 5 and 0.1 < found.load_ports < 6
    assert 0.1 < found.broadcast_ports < 6 and 1 < found.latency < 40
    assert 1 < found.l2_rate < 300
    assert set(found.threads) == {1}
