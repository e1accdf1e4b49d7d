"""What a series of readings says, on plain numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.canary.drift import LEARN, LEAST, MOST, Reading, Watch, after, forget

NAMES = ("a", "b", "c")
QUIET = st.floats(0.985, 1.015)
"""Scatter of a machine that is left alone: within a third of the least limit."""
SCALES = st.floats(1e-6, 1e-1)


def reading(machine=1.0, **kernels):
    """Kernels take so many times as long as usual by themselves, and the machine on top."""
    shares = {name: kernels.get(name, 1.0) for name in NAMES}
    return Reading(
        10e-6 * machine,
        {n: None if s is None else 1e-4 * s * machine for n, s in shares.items()},
        {n: 10.0 * s for n, s in shares.items() if s is not None},
    )


def watched(*readings):
    return reduce(after, readings, Watch())


@st.composite
def quiet_readings(draw, least=LEARN, most=LEARN + 20):
    count = draw(st.integers(least, most))
    return [reading(draw(QUIET), **{name: draw(QUIET) for name in NAMES}) for _ in range(count)]


@given(quiet_readings(least=1))
def test_a_quiet_machine_never_drifts(readings):
    watch = Watch()
    for one in readings:
        watch = after(watch, one)
        assert not watch.machine.slow and not watch.slow and not watch.broken
    assert watch.learning == (len(readings) < LEARN)


@given(quiet_readings(), st.floats(1.2 * (1 + MOST), 10), st.integers(0, 3))
def test_one_slow_reading_is_none_and_two_in_a_row_are_a_drift(readings, factor, quiet_between):
    watch = watched(*readings, reading(factor))
    assert not watch.machine.slow
    for _ in range(quiet_between):
        watch = after(watch, reading())
    watch = after(watch, reading(factor))
    assert watch.machine.slow == (quiet_between == 0)
    assert watch.machine.ratio == pytest.approx(factor, rel=0.03)
    assert after(watch, reading(factor)).machine.slow


@given(quiet_readings(), st.floats(1.2 * (1 + MOST), 10))
def test_a_drift_ends_after_two_readings_in_a_row(readings, factor):
    watch = watched(*readings, reading(factor), reading(factor), reading())
    assert watch.machine.slow
    assert not after(watch, reading()).machine.slow
    assert after(watch, reading(factor)).machine.slow


@given(
    quiet_readings(),
    st.lists(st.floats(0.2, 5), min_size=1, max_size=20),
)
def test_a_machine_that_changes_as_a_whole_blames_no_kernel(readings, machine):
    watch = watched(*readings)
    for factor in machine:
        watch = after(watch, reading(factor))
        assert not watch.slow


@given(quiet_readings(), st.floats(1.2 * (1 + MOST), 10), st.sampled_from(NAMES))
def test_a_kernel_that_is_slow_alone_is_found_and_no_other(readings, factor, name):
    slow = reading(**{name: factor})
    watch = watched(*readings, slow)
    assert not watch.slow
    watch = after(watch, slow)
    assert watch.slow == (name,) and not watch.machine.slow
    # while the machine is slow, kernels are nobody's business
    both = reading(factor, **{name: factor})
    watch = after(after(watch, both), both)
    assert watch.machine.slow and watch.slow == ()


@given(quiet_readings(), st.floats(1.5, 10), st.sampled_from(NAMES))
def test_slow_kernels_on_both_sides_of_a_slow_machine_are_not_two_in_a_row(readings, factor, name):
    alone = reading(**{name: factor})
    watch = watched(*readings, alone, reading(factor), alone)
    assert not watch.slow
    assert after(watch, alone).slow == (name,)


@given(quiet_readings(), st.lists(st.floats(0.3, 3), max_size=30))
def test_what_is_usual_only_ever_falls(readings, machine):
    watch = watched(*readings)
    for factor in machine:
        further = after(watch, reading(factor))
        assert further.machine.usual <= watch.machine.usual
        for name in NAMES:
            pairs = zip(further.kernels[name].usual, watch.kernels[name].usual, strict=True)
            assert all(new <= old for new, old in pairs)
        watch = further


@given(quiet_readings(), st.lists(st.floats(0.3, 3), max_size=12), SCALES)
def test_units_do_not_matter(readings, machine, scale):
    def scaled(one):
        latency = {n: s * scale for n, s in one.latency_s.items()}
        return replace(one, calibration_s=one.calibration_s * scale, latency_s=latency)

    series = [*readings, *(reading(factor) for factor in machine)]
    one, other = watched(*series), watched(*map(scaled, series))
    assert one.machine.slow == other.machine.slow and one.slow == other.slow
    assert one.machine.ratio == pytest.approx(other.machine.ratio)


def test_a_noisy_machine_has_a_wider_limit_and_a_creeping_one_has_not():
    noisy = [reading(1 + 0.03 * (-1) ** i + 0.001 * i) for i in range(30)]
    assert LEAST < watched(*noisy).machine.limit <= MOST
    creeping = [reading(1 + 0.002 * i) for i in range(60)]
    watch = watched(*creeping)
    assert watch.machine.slow


def test_a_baseline_from_a_slow_morning_falls():
    watch = watched(*[reading(1.5)] * LEARN, *[reading()] * 2)
    assert watch.machine.usual == (pytest.approx(10e-6),)
    assert watched(*[reading(1.5)] * LEARN, *[reading()] * 2, *[reading(1.5)] * 2).machine.slow


def test_a_kernel_that_fails_twice_in_a_row_is_broken():
    usual, failed = [reading()] * LEARN, reading(a=None)
    watch = watched(*usual, failed)
    assert watch.broken == ()
    watch = after(watch, failed)
    assert watch.broken == ("a",)
    assert after(watch, reading()).broken == ()
    assert watched(*usual, failed, reading(), failed).broken == ()


def test_a_kernel_that_was_replaced_is_learnt_anew():
    slow = reading(a=2.0)
    watch = forget(watched(*[reading()] * LEARN, slow, slow), ["a"])
    assert watch.slow == () and "a" not in watch.kernels
    for _ in range(LEARN):
        assert not watch.slow
        watch = after(watch, slow)
    assert not watch.learning and watch.slow == ()
