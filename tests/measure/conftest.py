from __future__ import annotations

import os
import time

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


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def wait_until_dead(pids, seconds=5.0):
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


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
