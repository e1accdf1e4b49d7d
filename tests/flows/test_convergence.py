"""The convergence curve and its picture."""

from __future__ import annotations

from dataclasses import dataclass

from flows.convergence import convergence, plot_png


@dataclass
class Measurement:
    workload_key: str
    latency_s: float | None

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


def test_the_picture_is_a_png():
    curve = convergence([Measurement("a", 2.0), Measurement("a", 1.0)], {"a": 1})
    assert plot_png(curve, "net").startswith(b"\x89PNG")
