"""The same products on the tensor cores of a GPU: verified as every candidate is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.mma.declared import sketches
from tests.kinds.cuda.mma.test_kernels import CASES
from tilework.measure import Candidate, Measurer
from tilework.record import Status
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CASES)
def test_candidates_on_tensor_cores_are_right(name):
    target = Target("cuda")
    if not target.limits.mma:
        pytest.skip(f"{target.arch} has no such tensor cores")
    task = SearchTask(CASES[name][0], target)
    used = {s.id for s in sketches(task.compute_dag, target)}
    rng, candidates = np.random.default_rng(0), []
    for sketch in SearchSpace.of(task).sketches:
        if sketch.id in used:
            for row in sketch.sample(rng, 8):
                candidates.append(Candidate(sketch.id, tuple(int(n) for n in row), 0.0, ""))
    with Measurer(target) as measurer:
        found = measurer.measure(task, candidates)
    assert {m.status for m in found} <= {Status.ok, Status.unfit}, [m.error for m in found]
    assert sum(m.status == Status.ok for m in found) > len(found) // 2
