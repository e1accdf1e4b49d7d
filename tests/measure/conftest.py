from __future__ import annotations

import pytest

from tests.measure.faults import Fault
from tilework import te
from tilework.measure import Candidate, Measurer
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=native -num-cores=2")


def add_task(n=1000, finite=True):
    a = te.placeholder((n,), name="A")
    b = te.placeholder((n,), name="B")
    if finite:
        c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    else:
        c = te.compute((n,), lambda i: te.log(a[i] - 2.0) + b[i], name="C")
    return SearchTask(te.ComputeDAG([a, b, c]), TARGET, "add")


def candidate(*row):
    return Candidate(0, tuple(int(x) for x in row), 0.5, "test")


def new_measurer(**options):
    defaults = {
        "build_processes": 1,
        "build_timeout_s": 20.0,
        "run_timeout_s": 20.0,
        "min_repeat_ms": 0.1,
        "repeats": 5,
        "time_budget_ms": 100.0,
        "overlap": False,
        "builder": "tests.measure.faults:BUILDER",
        "device": "tests.measure.faults:DEVICE",
    }
    return Measurer(TARGET, **{**defaults, **options})


@pytest.fixture(scope="session")
def task():
    return add_task()


@pytest.fixture(scope="module")
def measurer():
    with new_measurer() as measurer:
        yield measurer


@pytest.fixture(scope="session")
def ok():
    return candidate(Fault.none)
