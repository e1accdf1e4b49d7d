"""The convergence curve and its picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from flows.convergence import convergence, plot_png, task_curves
from tests.storage.conftest import START
from tilework.record import Purpose


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

    @property
    def workload(self):
        return f"task {self.workload_key}"

    @property
    def usable(self):
        return self.latency_s is not None


def test_the_curve_begins_when_every_task_is_measured_and_only_falls():
    records = [
        Measurement("a", 3.0), Measurement("b", None), Measurement("b", 2.0),
        Measurement("a", 5.0), Measurement("a", 1.0), Measurement("elsewhere", 0.1),
    ]  # fmt: skip
    curve = convergence(records, {"a": 2, "b": 1})
    assert curve.trials == (3, 4, 5)
    assert curve.total_s == (8.0, 8.0, 4.0)


def test_nothing_measured_gives_an_empty_curve():
    assert convergence([Measurement("a", None)], {"a": 1}).trials == ()


def test_curves_of_tasks_have_points_and_a_best_line():
    at = [START + timedelta(seconds=s) for s in (0, 5, 1000, 1003)]
    records = [
        Measurement("a", 2.0, at[0]), Measurement("b", 1.0, at[1]), Measurement("a", None, at[1]),
        Measurement("a", 4.0, at[2]), Measurement("a", 1.0, at[3]),
        Measurement("a", 1.25, at[3] + timedelta(seconds=1), Purpose.final),
    ]  # fmt: skip
    a, b = task_curves(records, {"a": 3, "b": 1})
    assert (a.name, a.trials, a.seconds) == ("task a", (1, 3, 4, 5), (0, 5, 5, 8))
    assert a.gflops[0] == 0.5 and math.isnan(a.gflops[1])
    assert a.best == (0.5, 0.5, 0.5, 1.0)
    assert a.final_gflops == 0.8 and b.final_gflops is None
    assert a.share == 3.75 / 4.75
    curve = convergence(records, {"a": 3, "b": 1})
    assert curve.trials == (2, 3, 4, 5) and curve.seconds == (5, 5, 5, 8)
    assert plot_png(curve, "net", [a, b]).startswith(b"\x89PNG")


def test_the_picture_is_a_png():
    curve = convergence([Measurement("a", 2.0), Measurement("a", 1.0)], {"a": 1})
    assert plot_png(curve, "net").startswith(b"\x89PNG")


def test_a_nearly_flat_curve_can_be_seen():
    from io import BytesIO

    from matplotlib.image import imread

    found = [Measurement("a", 2.0), *[Measurement("a", 1.9999)] * 5]
    curve = convergence(found, {"a": 1})
    picture = imread(BytesIO(plot_png(curve, "net")))
    blue = (picture[:, :, 2] > 0.8) & (picture[:, :, 0] < 0.3)
    frame = (picture[:, :, :3] < 0.1).all(axis=2).sum(axis=1).argmax()  # its longest black line
    below = blue[frame + 3 :] if frame < len(blue) / 2 else blue[3 : frame - 3]
    assert below.any(axis=0).sum() > picture.shape[1] / 3, "the curve crosses the picture"
