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
