"""What every kind's draft says of machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.kinds.cpu.features.matrix import SketchCost
from tilework.kinds.cpu.machine import Machine
from tilework.kinds.cpu.target import CpuTarget
from tilework.model.draft import draft_of
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGETS = (x86("x86-64-v3", 2), "cuda -model=a100", "reference -num-cores=2")


@pytest.fixture(params=TARGETS)
def target(request):
    return Target(request.param)


def _drawn(target):
    task = SearchTask(te.ComputeDAG(workloads.matmul(64, 64, 64)), target)
    sketch = SearchSpace.of(task).sketches[0]
    return sketch, sketch.sample(np.random.default_rng(0), 40)


def test_a_machine_is_described_by_positive_numbers(target):
    draft = draft_of(target)
    found = draft.machine(target)
    assert all(np.isfinite(v) and v > 0 for v in found.values())


def test_costs_that_are_kept_are_those_of_their_machine():
    target = Target(TARGETS[0])
    sketch, rows = _drawn(target)
    machine = Machine.of(CpuTarget.of(target))
    one = SketchCost.of(sketch, rows, machine).seconds
    slow = SketchCost.of(sketch, rows, replace(machine, fma_ports=0.25)).seconds
    assert not np.array_equal(one, slow)
    assert np.array_equal(SketchCost.of(sketch, rows, machine).seconds, one)
