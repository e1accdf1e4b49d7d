"""The convergence curve: how a network's estimated latency fell with the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.record import Record


@dataclass(frozen=True)
class Curve:
    """``total_s[i]`` is the estimated latency after ``trials[i]`` measurements.

    It begins when every measured task has a first valid latency.
    """

    trials: tuple[int, ...]
    total_s: tuple[float, ...]


def convergence(records: Sequence[Record], weights: Mapping[str, float]) -> Curve:
    """The curve of records in the order in which they were made.

    ``weights`` gives each workload's number of calls; records of other workloads are left out.
    Tasks without any valid record do not count.
    """
    ordered = [r for r in records if r.workload_key in weights]
    tasks = {r.workload_key for r in ordered if r.usable}
    best: dict[str, float] = {}
    trials, totals = [], []
    for count, record in enumerate(ordered, 1):
        if record.usable and record.latency_s is not None:
            known = best.get(record.workload_key, float("inf"))
            best[record.workload_key] = min(known, record.latency_s)
        if tasks and best.keys() == tasks:
            trials.append(count)
            totals.append(sum(weights[key] * latency for key, latency in best.items()))
    return Curve(tuple(trials), tuple(totals))


def plot_png(curve: Curve, network: str) -> bytes:
    """The curve as a PNG picture."""
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    totals = [1e3 * s for s in curve.total_s]
    axes.step(curve.trials, totals, where="post", color="#2563eb")
    axes.plot(curve.trials[-1:], totals[-1:], "o", color="#2563eb")
    if totals:  # room around the curve: on the frame a flat one cannot be seen
        low, high = min(totals), max(totals)
        room = max(0.1 * (high - low), 0.02 * high)
        axes.set_ylim(low - room, high + room)
        axes.annotate(
            f"{totals[-1]:.3g} ms", (curve.trials[-1], totals[-1]), (-4, 8),
            textcoords="offset points", ha="right",
        )  # fmt: skip
    axes.set_xlabel("measurements")
    axes.set_ylabel("estimated latency (ms)")
    axes.set_title(f"{network}: sum of its tasks' best latencies")
    axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
