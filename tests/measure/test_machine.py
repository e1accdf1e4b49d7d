"""Figures of the machine itself: they are measured, positive and in order of magnitude."""

from __future__ import annotations

import os

import pytest

from tests.hosts import x86
from tilework.kinds.cpu.calibrate.bandwidth import Bandwidth
from tilework.kinds.cpu.calibrate.core_to_core import core_to_core_ns
from tilework.target import Target


def test_the_smallest_level_that_holds_the_data_counts():
    target = Target(x86("core-avx2", 2))
    bandwidth = Bandwidth(4, 3, 2, 1)
    assert bandwidth.of(target.l1_bytes, target) == 4
    assert bandwidth.of(target.l1_bytes + 1, target) == 3
    assert bandwidth.of(target.l1_bytes + 1, target, threads=2) == 4
    assert bandwidth.of(target.l3_bytes, target) == 2
    assert bandwidth.of(target.l3_bytes + 1, target) == 1


def test_a_line_changes_hands():
    before = os.sched_getaffinity(0)
    found = core_to_core_ns(repeats=3)
    assert os.sched_getaffinity(0) == before
    if len(before) < 2:
        assert found is None
    else:
        assert found == pytest.approx(found) and 1 < found < 1e6
