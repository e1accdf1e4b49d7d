"""The convergence curve and its picture."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.convergence import convergence, task_curves
from flows.plots import FAILED, plot_png
from tests.storage.conftest import START
from tilework.record import Purpose, best_of


@dataclass
class Measurement:
    workload_key: str
    latency_s: float | None
    created_at: datetime = START
    purpose: Purpose = Purpose.search
    host: str = "here"
    run_id: str = "run"
    round: int = 0
    record_id: str = "x"
    flops: float = 1e9
    build_s: float = 0.25
    device_id: str = "device"
    device: str = "a CPU"

    @property
    def workload(self):
        return f"task {self.workload_key}"

    @property
    def usable(self):
        return self.latency_s is not None


def test_the_curve_begins_at_the_first_trial_and_only_falls():
    """Until a task is measured it counts as its first measurement."""
    records = [
        Measurement("a", 3.0), Measurement("b", None), Measurement("b", 2.0),
        Measurement("a", 5.0), Measurement("a", 1.0), Measurement("elsewhere", 0.1, round=1),
    ]  # fmt: skip
    records[1].round = records[2].round = 1
    curve = convergence(records[:5], {"a": 2, "b": 1})
    assert curve.trials == (1, 2, 3, 4, 5)
    assert curve.total_s == (8.0, 8.0, 4.0, 4.0, 4.0) and curve.assumed == 4


def test_nothing_measured_gives_an_empty_curve():
    assert convergence([Measurement("a", None)], {"a": 1}).trials == ()
    assert convergence([], {"a": 1}, {"a": 1.0}).trials == ()
    assert task_curves([Measurement("a", None)], {"a": 1}) == []


def test_a_task_without_a_valid_measurement_counts_as_drafted():
    records = [Measurement("a", 2.0), Measurement("b", None, round=1)]
    curve = convergence(records, {"a": 1, "b": 3}, {"a": 9.0, "b": 5.0, "elsewhere": 1.0})
    assert curve.total_s == (17.0, 17.0)


def search(key, latency_s, seconds, purpose=Purpose.search, run="run"):
    at = START + timedelta(seconds=seconds)
    number = round(10 * seconds)  # one round at a time
    return Measurement(key, latency_s, at, purpose, run_id=run, round=number)


def two_tasks():
    return [
        search("a", 2.0, 0), search("b", 1.0, 5), search("a", None, 6), search("a", 4.0, 1000),
        search("a", 1.0, 1003), search("a", 1.25, 1004, Purpose.final),
        search("a", 1.5, 1004, Purpose.final),
    ]  # fmt: skip


def test_curves_of_tasks_end_with_what_finals_said():
    a, b = task_curves(two_tasks(), {"a": 3, "b": 1})
    assert [p.trial for p in a.points] == [1, 2, 3, 4, 4, 4]
    assert [p.final for p in a.points] == [False] * 4 + [True] * 2
    assert a.points[0].gflops == 0.5 and math.isnan(a.points[1].gflops)
    assert [p.best_gflops for p in a.points] == [0.5, 0.5, 0.5, 1.0, 1.0, 0.8]
    assert (a.name, a.share) == ("task a", pytest.approx(3.75 / 4.75))
    assert [p.best_gflops for p in b.points] == [1.0]


def test_time_is_of_work_without_interruptions_and_spread_over_a_round():
    """Rounds took 5, 1, 3 and 1 s; the first, and the one after 1000 s, count as usual: 2 s."""
    curve = convergence(two_tasks(), {"a": 3, "b": 1})
    assert curve.trials == (1, 2, 3, 4, 5, 5, 5)
    assert curve.seconds == (2, 7, 8, 10, 13, 13.5, 14)
    assert curve.total_s[-1] == 3 * 1.25 + 1
    a, _ = task_curves(two_tasks(), {"a": 3, "b": 1})
    assert [p.seconds for p in a.points] == [2, 3, 5, 8, 8.5, 9]


def test_another_run_begins_with_a_usual_round():
    records = [search("a", 2.0, 0), search("a", 2.0, 4), search("a", 2.0, 30, run="next")]
    assert convergence(records, {"a": 1}).seconds == (4, 8, 12)


def test_other_tasks_take_no_time_of_the_networks():
    records = [search("a", 2.0, 0), search("other", 2.0, 4), search("a", 2.0, 6)]
    assert convergence(records, {"a": 1}).seconds == (3, 5)


def test_of_a_lone_round_only_the_builds_are_known():
    records = [Measurement("a", 2.0), Measurement("a", 1.0)]
    assert convergence(records, {"a": 1}).seconds == (0.25, 0.5)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["device", "device", ""]),  # some from before devices had an id
            st.booleans(),
            st.lists(st.one_of(st.none(), st.floats(1e-6, 1.0)), min_size=1, max_size=3),
        ),
        max_size=12,
    )
)
@settings(max_examples=200, deadline=None)
def test_a_curve_ends_where_the_summary_does(rounds):
    """Whatever was measured, the last point is the sum of what `best_of` names."""
    records = []
    for number, (key, device, final, latencies) in enumerate(rounds):
        purpose = Purpose.final if final else Purpose.search
        records += [
            replace(search(key, latency, number, purpose), device_id=device)
            for latency in latencies
        ]
    weights = {"a": 3.0, "b": 1.0}
    curve = convergence(records, weights)
    best = {k: best_of(r for r in records if r.workload_key == k) for k in weights}
    wanted = sum(weights[k] * one.latency_s for k, one in best.items() if one is not None)
    assert (curve.total_s or (0.0,))[-1] == pytest.approx(wanted)
    for task in task_curves(records, weights):
        found = best[task.name.removeprefix("task ")]
        assert task.points[-1].best_gflops == pytest.approx(1.0 / found.latency_s)


def picture(png):
    from matplotlib.image import imread

    return (imread(io.BytesIO(png))[:, :, :3] * 255).round().astype(int)


def rgb(name):
    return [int(name[place : place + 2], 16) for place in (1, 3, 5)]


def blue(pixels):
    """Where the line is, its soft edges included."""
    return pixels[:, :, 2] - pixels[:, :, 0] > 90


def frames(pixels):
    """Rows of pixels in which the frames of panels lie."""
    black = (pixels < 120).all(axis=2).sum(axis=1)
    return [row for row, count in enumerate(black) if count > pixels.shape[1] / 2]


def test_a_nearly_flat_curve_can_be_seen():
    found = [Measurement("a", 2.0), *[Measurement("a", 1.9999)] * 5]
    pixels = picture(plot_png(convergence(found, {"a": 1}), "net"))
    line = blue(pixels)
    edges = frames(pixels)
    assert len(edges) == 2
    line[[row for edge in edges for row in range(edge - 2, edge + 3)]] = False
    assert line.any(axis=0).sum() > pixels.shape[1] / 3, "the curve crosses the picture"


def test_the_best_line_of_a_task_is_not_on_the_frame_even_if_no_trial_improved_it():
    found = [search("a", 1.0, 0), *[search("a", 1.0 + 0.1 * i, i) for i in range(1, 9)]]
    tasks = task_curves(found, {"a": 1})
    pixels = picture(plot_png(convergence(found, {"a": 1}), "net", tasks))
    lower = pixels[len(pixels) // 2 :]
    line = blue(lower)
    edges = frames(lower)
    assert len(edges) >= 2, "the panels' upper and lower edges"
    line[[row for edge in edges for row in range(edge - 2, edge + 3)]] = False
    assert line[edges[0] :].any(axis=0).sum() > lower.shape[1] / 2


def test_the_only_failure_keeps_its_colour():
    """A palette made for the picture would lose so rare a colour; the legend has a mark, too."""
    without, with_one = (
        (picture(plot_png(convergence(r, {"a": 1}), "net", task_curves(r, {"a": 1})))
         == rgb(FAILED)).all(axis=2).sum()
        for r in (two_tasks()[:1], [*two_tasks()[:1], search("a", None, 1)])
    )  # fmt: skip
    assert 0 < without < with_one


def test_pictures_are_small():
    records = [
        Measurement(f"t{n}", 1.0 + (7 * i % 5) / 10, START + timedelta(seconds=i), round=i)
        for n in range(24)
        for i in range(8 * n, 8 * n + 8)
    ]
    weights = {f"t{n}": 1.0 for n in range(24)}
    png = plot_png(convergence(records, weights), "net", task_curves(records, weights))
    assert png.startswith(b"\x89PNG") and len(png) < 100_000
