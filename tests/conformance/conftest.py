"""What the tests of one kind share: its target, its tasks, the records of a short run."""

from __future__ import annotations

import pytest

from tests.conformance.network import network
from tests.conformance.suite import TRIALS
from tests.conformance.tune import options
from tests.processes import wait_until_dead
from tilework import Target, extract_tasks
from tilework.measure import Measurer
from tilework.record import MemoryHistory
from tilework.search.tune import tune


@pytest.fixture(scope="class")
def where(request):
    return Target(request.cls.target)


@pytest.fixture(scope="class")
def tasks(where):
    return list(extract_tasks(network(), where)[0])


@pytest.fixture(scope="class")
def tuned(request, where, tasks):
    history = MemoryHistory()
    with Measurer(where, build_processes=1, **request.cls.settings) as measurer:
        tune(tasks, None, options(TRIALS), history, measurer, run_id="run")
        pids = measurer.pids
    assert wait_until_dead(pids)
    return history
