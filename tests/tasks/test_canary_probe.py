"""What cycles of timing come to, and which kernels are frozen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.canary.frozen import LONGEST_S, SHORTEST_S, _handy, _spread
from tasks.canary.probe import LEAST_CYCLES, probe, reading_of
from tilework.measure import Candidate, Measured
from tilework.record import Status

ONE = Candidate(0, (1,), 0.0, "")
SECONDS = st.floats(1e-6, 1e-1)


def ok(latency_s, calibration_s=1e-5):
    return Measured(ONE, Status.ok, "", latency_s, (latency_s,), 0.0, calibration_s)


def failed(calibration_s=1e-5):
    return Measured(ONE, Status.wrong_answer, "wrong", calibration_s=calibration_s)


@given(st.lists(SECONDS, min_size=3, max_size=9), st.floats(2, 100), st.integers(0, 8))
def test_one_busy_cycle_changes_a_reading_within_the_others_only(latencies, factor, which):
    cycles = [ok(one) for one in latencies]
    quiet = reading_of({"a": cycles})
    which %= len(cycles)
    busy = [ok(one * factor, 1e-5 * factor) for one in latencies]
    mixed = [busy[i] if i == which else cycles[i] for i in range(len(cycles))]
    found = reading_of({"a": mixed})
    rest = sorted(one for i, one in enumerate(latencies) if i != which)
    assert rest[0] <= found.latency_s["a"] <= max(rest)
    assert found.calibration_s == quiet.calibration_s == 1e-5
    # calibration and kernel of one moment belong together: their ratios are as before
    assert found.relative["a"] == pytest.approx(quiet.relative["a"])


@given(st.lists(SECONDS, min_size=1), st.floats(0.1, 10))
def test_a_machine_that_is_slower_as_a_whole_leaves_ratios_alone(latencies, factor):
    usual = reading_of({"a": [ok(one) for one in latencies]})
    slow = reading_of({"a": [ok(one * factor, 1e-5 * factor) for one in latencies]})
    assert slow.relative["a"] == pytest.approx(usual.relative["a"])
    assert slow.calibration_s == pytest.approx(usual.calibration_s * factor)
    assert slow.latency_s["a"] == pytest.approx(usual.latency_s["a"] * factor)


def test_a_kernel_that_failed_once_is_timed_and_one_that_always_failed_is_not():
    reading = reading_of({"a": [ok(1e-4), failed(), ok(3e-4)], "b": [failed(), failed()]})
    assert reading.latency_s == {"a": pytest.approx(2e-4), "b": None}
    assert reading.relative.keys() == {"a"}


@pytest.mark.parametrize(("seconds", "cycles"), [(0.0, LEAST_CYCLES), (10.0, 5)])
def test_kernels_take_turns_until_the_time_is_over(seconds, cycles):
    order, now = [], [0.0]

    class Measurer:
        def finals(self, task, candidates):
            order.append(task)
            now[0] += 1.0
            return [ok(1e-4)]

    canaries = [
        (SimpleNamespace(name=name, candidate=lambda: ONE), name.upper()) for name in ("a", "b")
    ]
    found = probe(canaries, Measurer(), seconds, clock=lambda: now[0])
    assert order == ["A", "B"] * cycles
    assert found.measured.keys() == found.reading.latency_s.keys() == {"a", "b"}


def record(latency_s, flops=1e6, name="r"):
    return SimpleNamespace(latency_s=latency_s, flops=flops, record_id=f"{name}{latency_s}")


@given(st.lists(SECONDS, unique=True, max_size=12), st.integers(1, 4))
def test_kernels_are_spread_from_slow_to_fast(latencies, count):
    chosen = _spread([record(one) for one in latencies], count)
    assert len(chosen) == min(count, len(latencies))
    assert [r.latency_s for r in chosen] == sorted((r.latency_s for r in chosen), reverse=True)
    assert len({r.record_id for r in chosen}) == len(chosen)
    if len(chosen) > 1:
        assert chosen[0].latency_s == max(latencies)
        assert chosen[-1].latency_s == min(latencies)


def test_kernels_that_are_timed_badly_are_taken_only_for_want_of_others():
    good = [record(SHORTEST_S * 2), record(LONGEST_S / 2)]
    bad = [record(SHORTEST_S / 2), record(LONGEST_S * 2), record(1e-3, flops=1e12)]
    assert _handy([*good, *bad], 2) == good
    assert _handy([*good, *bad], 3) == [*good, *bad]
