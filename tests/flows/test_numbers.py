"""Latencies and other numbers as people read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli.output import at_points
from flows.numbers import (
    change,
    gflops,
    latency,
    milliseconds,
    number,
    operations,
    percent,
    plural,
    show_ms,
    size,
    speed,
    unit_of,
    when,
)

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5e-10, "0.250 ns"), (8.4e-9, "8.400 ns"), (9.999e-7, "999.9 ns"), (1e-6, "1.000 us"),
        (5.231e-5, "52.31 us"), (9.99996e-5, "0.100 ms"), (1.264e-4, "0.126 ms"),
        (3.9334e-3, "3.933 ms"), (0.0123456, "12.35 ms"), (0.9999, "999.9 ms"),
        (0.999999, "1.000 s"), (83.13, "83.13 s"), (0.0, "0 ms"), (None, "-"),
        (math.inf, "inf ms"),
    ],
)  # fmt: skip
def test_a_latency_has_a_unit_that_fits_it(seconds, text):
    assert latency(seconds) == text


@given(st.floats(1e-12, 1e4))
def test_what_is_written_is_what_was_measured(seconds):
    found = re.fullmatch(r"(\d+(?:\.\d+)?) (s|ms|us|ns)", latency(seconds))
    assert found, latency(seconds)
    again = float(found[1]) * SECONDS[found[2]]
    assert again == pytest.approx(seconds, rel=6e-3 if float(found[1]) < 1 else 6e-4)
    assert float(show_ms(seconds * 1e3)) == pytest.approx(seconds * 1e3, rel=6e-3)
    assert milliseconds(seconds) == show_ms(seconds * 1e3)
    assert unit_of(seconds).name == found[2]


def test_a_tiny_roofline_is_not_nothing():
    assert milliseconds(3.2e-9) == "0.00000320"
    assert latency(3.2e-9) == "3.200 ns"


def test_differences_have_a_sign():
    assert latency(1.5e-5, signed=True) == "+15.00 us"
    assert latency(-1.5e-5, signed=True) == "-15.00 us"
    assert latency(0.0, signed=True) == "0 ms"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (2.0, 1.0, "-50 %"), (1.0, 1.031, "+3.1 %"), (1.0, 1.0, "0 %"), (1.0, 0.99999, "0 %"),
        (1.0, 2.2, "+120 %"), (None, 1.0, "-"), (1.0, None, "-"), (0.0, 1.0, "-"),
    ],
)  # fmt: skip
def test_changes(before, after, text):
    assert change(before, after) == text


def test_other_numbers():
    assert (gflops(2e9, 0.5), gflops(1e3, 1.0), gflops(1.0, None)) == ("4.0", "0.00000100", "-")
    assert (speed(0.0421), speed(None), speed(123.44)) == ("0.0421", "-", "123.4")
    assert (number(None, 1), number(2.0, 1), percent(0.123), percent(None)) == (
        "-", "2.0", "12 %", "-",
    )  # fmt: skip
    assert ("trial" + plural(1), "trial" + plural(2)) == ("trial", "trials")


def test_sizes():
    assert [size(n) for n in (0, 80, 999.6, 1234, 1_234_567, 2.5e9)] == [
        "0 B", "80 B", "1.00 kB", "1.23 kB", "1.23 MB", "2.50 GB",
    ]  # fmt: skip


def test_operations():
    assert [operations(n) for n in (40, 999.6, 218_762, 3.661e9)] == [
        "40 FLOP", "1.000 kFLOP", "218.8 kFLOP", "3.661 GFLOP",
    ]  # fmt: skip


def test_times_of_day_are_local():
    moment = datetime(2026, 11, 2, 3, 4, tzinfo=UTC)
    assert when(moment) == f"{moment.astimezone():%Y-%m-%d %H:%M}"


def test_points_line_up():
    assert at_points(["0.0523", "12.35", "-", "", "7"]) == [
        "0.0523", "12.35  ", "-     ", "     ", "7     ",
    ]  # fmt: skip
    assert at_points([]) == []
