"""What every kind's draft says of machines, and how it is adjusted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
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
    slower = draft.adjusted({draft.parameters[0]: 0.5}).machine(target)
    assert slower.keys() == found.keys() and slower != found


def test_adjusted_by_nothing_it_is_the_same_draft(target):
    draft = draft_of(target)
    one = dict.fromkeys(draft.parameters, 1.0)
    assert draft.adjusted({}) == draft == draft.adjusted(one)
    name = draft.parameters[0]
    twice = draft.adjusted({name: 2.0})
    assert twice != draft == twice.adjusted({name: 0.5})


def test_each_machine_has_its_own_costs(target):
    sketch, rows = _drawn(target)
    draft = draft_of(target)
    seconds, features = draft.seconds(sketch, rows), draft.features(sketch, rows)
    slow = draft.adjusted(dict.fromkeys(draft.parameters, 4.0))
    other, seen = slow.seconds(sketch, rows), slow.features(sketch, rows)
    assert not np.array_equal(other, seconds) and not np.array_equal(seen, features)
    assert np.array_equal(draft.seconds(sketch, rows), seconds)  # not what was kept of the other
    assert np.array_equal(draft.features(sketch, rows), features)


@pytest.mark.parametrize("factors", [{"no such": 2.0}, {0: 0.0}, {0: -1.0}, {0: float("nan")}])
def test_what_is_no_factor_is_refused(target, factors):
    draft = draft_of(target)
    named = {draft.parameters[k] if k == 0 else k: v for k, v in factors.items()}
    with pytest.raises(ValueError, match=r"no parameter 'no such'|positive number"):
        draft.adjusted(named)
