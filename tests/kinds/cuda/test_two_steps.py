"""More candidates are built than run, and none that spills runs: the whole way, on a device that
is simulated, whose kernels are real code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.te import workloads
from tilework import te
from tilework.kinds.cuda.geometry import geometry
from tilework.measure import Candidate, Measurer, to_records
from tilework.record import MemoryHistory, Purpose, Status
from tilework.search import SketchPolicy
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

pytestmark = pytest.mark.usefixtures("needs_nvrtc")


def random_rows(sketch, count: int):
    """Any valid rows."""
    return sketch.sample(np.random.default_rng(0), count)


def measured(count: int, limit: int, size: int, searched: bool, choose=random_rows):
    dag = te.ComputeDAG(workloads.conv2d_relu(1, size, size, 64, 64))
    task = SearchTask(dag, Target("cuda -model=a100 -run=simulated"), "conv")
    if searched:
        policy = SketchPolicy(task)
        candidates = policy.propose(MemoryHistory(), limit, reserves=count - limit)
    else:
        rows = choose(SearchSpace.of(task).sketches[0], count)
        candidates = [Candidate(0, tuple(int(v) for v in row), 1.0, "test") for row in rows]
    with Measurer(task.target, build_timeout_s=120.0) as measurer:
        assert measurer.build_factor == 2
        found = measurer.measure(task, candidates, limit=limit)
    return candidates, found, to_records(task, found, run_id="run", round=0)


def check(count: int, limit: int, size: int, searched: bool, choose=random_rows) -> int:
    """How many were refused."""
    candidates, found, records = measured(count, limit, size, searched, choose)
    ok = [m for m in found if m.status == Status.ok]
    unfit = [m for m in found if m.status == Status.unfit]
    assert len(candidates) == count and len(found) == len(ok) + len(unfit)
    assert len(ok) == min(limit, count - len(unfit))
    assert all(m.facts["spill_bytes"] == 0 < m.facts["registers"] for m in ok)
    assert all(m.facts["spill_bytes"] > 0 and m.latency_s is None for m in unfit)
    for record in records:
        assert record.registers and record.blocks_per_sm
        assert (record.purpose == Purpose.refused) == bool(record.spill_bytes)
    return len(unfit)


def test_what_runs_does_not_spill():
    check(6, 3, 14, searched=False)


def tight_rows(sketch, count: int):
    """Rows that hold the most in registers, among those that may use the fewest."""
    rows = sketch.sample(np.random.default_rng(0), 4000)
    nest = sketch.nests(rows)[0]
    found = geometry(nest)
    held = np.where(nest.values["registers"] == 64, found.accumulators + found.fragments, 0)
    return rows[np.argsort(-held, kind="stable")[:count]]


def test_what_spills_is_refused():
    assert check(8, 4, 28, searched=False, choose=tight_rows) > 0


@pytest.mark.cuda_full
def test_of_many_candidates_none_that_spills_runs():
    check(64, 32, 56, searched=True)
