"""When a network shares its runs: the judge, on a clock of its own."""

from __future__ import annotations

import ctypes
import sys
from itertools import pairwise

import numpy as np
import pytest

from tilework.kinds.cpu.calls import SITE_WORDS
from tilework.kinds.cpu.jit import LinkedObjects
from tilework.kinds.cpu.llvm.pool import JUDGE, pool_object
from tilework.kinds.cpu.target import CpuTarget

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads of Linux")

MS = 1_000_000
STATE, ALONE, TEAM = 3, {1, 3, 4, 7}, 2


@pytest.fixture(scope="module")
def code():
    return LinkedObjects(pool_object(CpuTarget("llvm -num-cores=1")))


@pytest.fixture
def network(code):
    return Network(code)


class Network:
    """Runs that take as long as they are told."""

    def __init__(self, code):
        kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self._judge = ctypes.CFUNCTYPE(None, *kinds)(code.address(JUDGE))
        self.site = (ctypes.c_int64 * SITE_WORDS)()
        self.now = 10**15

    @property
    def state(self):
        return self.site[STATE]

    def run(self, team_ms, alone_ms, pause_ms=0.0):
        """One of them; whether it was on one thread."""
        state = self.state
        took = int(MS * (alone_ms if state in ALONE else team_ms))
        self.now += took + int(MS * pause_ms)
        self._judge(ctypes.addressof(self.site), state, took, self.now)
        return state in ALONE

    def runs(self, count, *times):
        return [self.run(*times) for _ in range(count)]

    def settle(self, *times, seconds=10):
        end = self.now + 1000 * MS * seconds
        while self.now < end:
            self.run(*times)


@pytest.mark.parametrize("pause_ms", [0, 20, 200])
def test_both_ways_are_tried_first(network, pause_ms):
    tried = network.runs(8, 2.0, 4.0, pause_ms)
    assert tried[:5] == [False] * 5
    assert any(tried)
    assert network.state == TEAM
    assert sum(network.runs(100, 2.0, 4.0, pause_ms)) <= 6


def test_a_trial_ends_when_it_is_clear(network):
    network.runs(5, 2.0, 4.0)
    network.runs(2, 2.0, 4.0)  # the first one warms up, the second one is twice as slow
    assert network.state == TEAM
    network.settle(2.0, 2.1)
    while not network.run(2.0, 2.1):
        pass
    assert network.runs(3, 2.0, 2.1) == [True, True, False]  # hard to tell: all three


def test_being_alone_has_to_win_twice(network):
    network.runs(5, 4.0, 4.0)
    while network.run(4.0, 3.0):
        pass
    assert network.state not in (TEAM, 3)  # has won once
    while network.state != TEAM:
        network.run(2.0, 3.0)  # it was an accident
    network.settle(4.0, 3.0, seconds=2)
    assert sum(network.runs(100, 4.0, 3.0)) > 90


@pytest.mark.parametrize("pause_ms", [0.1, 1, 20, 50, 200])
def test_who_kept_the_cores_busy_is_gone(network, pause_ms):
    for offset in range(40):
        network.settle(6.0, 4.0, pause_ms)
        network.runs(offset, 6.0, 4.0, pause_ms)
        gone = network.now
        while network.state != TEAM:
            network.run(2.5, 4.0, pause_ms)
        assert network.now - gone <= 2000 * MS


def test_somebody_keeps_a_core_busy(network):
    network.settle(2.0, 4.0)
    came = network.now
    network.runs(60, 6.0, 4.0)
    assert network.state == 3
    assert network.now - came < 500 * MS


@pytest.mark.parametrize(("team", "alone"), [(2.0, 4.0), (0.04, 0.036), (5.0, 1.0)])
@pytest.mark.parametrize("pause_ms", [0, 0.1])
def test_trials_are_rare(network, team, alone, pause_ms):
    network.settle(team, alone, pause_ms, seconds=5)
    count = int(10e3 / (min(team, alone) + pause_ms))
    apart = sum(found != (alone < team) for found in network.runs(count, team, alone, pause_ms))
    lost = apart * (max(team, alone) - min(team, alone))
    assert lost < 0.01 * count * min(team, alone)


def test_trials_are_further_and_further_apart(network):
    network.settle(6.0, 4.0, seconds=0.2)
    began = []
    for _ in range(5000):
        before = network.state
        network.run(6.0, 4.0)
        if before == 3 and network.state == 5:
            began.append(network.now)
    pauses = [b - a for a, b in pairwise(began)]
    assert 500 * MS <= pauses[0] < 550 * MS
    assert all(1000 * MS <= pause < 1050 * MS for pause in pauses[1:])


@pytest.mark.parametrize("seed", range(5))
def test_a_run_in_ten_that_is_held_up_changes_little(network, seed):
    rng = np.random.default_rng(seed)
    held = lambda t: t * (4.0 if rng.random() < 0.1 else rng.uniform(0.95, 1.05))  # noqa: E731
    found = [network.run(held(2.5), held(4.0), 50) for _ in range(1000)]
    assert np.mean(found) < 0.1


def test_trials_of_long_runs_are_rare_beside_somebody_who_stays(network):
    network.settle(450.0, 300.0, seconds=60)
    found = network.runs(400, 450.0, 300.0)
    assert 0 < found.count(False) * 150 < 0.04 * 400 * 300


def test_a_run_of_an_earlier_state_is_not_counted(network):
    network.runs(5, 2.0, 4.0)
    before = list(network.site)
    network._judge(ctypes.addressof(network.site), 0, MS, network.now)
    assert list(network.site) == before
