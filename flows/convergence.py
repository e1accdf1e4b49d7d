"""Convergence: the best speed found against trials and against time, per task and in all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilework.record import Record

MOST_PANELS = 30
"""Tasks that get a panel: those that take most of the network's time."""


@dataclass(frozen=True)
class Curve:
    """``total_s[i]`` is the estimated latency after ``trials[i]`` measurements.

    It begins when every measured task has a first valid latency. ``seconds`` are since the first
    record, interruptions left out.
    """

    trials: tuple[int, ...]
    total_s: tuple[float, ...]
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class TaskCurve:
    """Measurements of one task in the order in which they were made, new candidates only.

    Attributes:
        trials: of the whole network, when each was made; ``seconds`` likewise.
        gflops: of each, NaN if it failed.
        final_gflops: of the winner of finals; None if there were none.
        share: of the network's time, by its best latency.
    """

    name: str
    trials: tuple[int, ...]
    seconds: tuple[float, ...]
    gflops: tuple[float, ...]
    final_gflops: float | None
    share: float

    @property
    def best(self) -> tuple[float, ...]:
        """Best speed found so far, NaN before the first."""
        out, top = [], math.nan
        for value in self.gflops:
            if not math.isnan(value):
                top = value if math.isnan(top) else max(top, value)
            out.append(top)
        return tuple(out)


def convergence(records: Sequence[Record], weights: Mapping[str, float]) -> Curve:
    """The network's curve of records in the order in which they were made.

    ``weights`` gives each workload's number of calls; records of other workloads, and of finals,
    are left out. Tasks without any valid record do not count.
    """
    ordered = _searched(records, weights)
    tasks = {r.workload_key for r in ordered if r.usable}
    clock = _clock(ordered)
    best: dict[str, float] = {}
    trials, totals, seconds = [], [], []
    for count, record in enumerate(ordered, 1):
        if record.usable and record.latency_s is not None:
            known = best.get(record.workload_key, float("inf"))
            best[record.workload_key] = min(known, record.latency_s)
        if tasks and best.keys() == tasks:
            trials.append(count)
            seconds.append(clock[record.created_at])
            totals.append(sum(weights[key] * latency for key, latency in best.items()))
    return Curve(tuple(trials), tuple(totals), tuple(seconds))


def task_curves(records: Sequence[Record], weights: Mapping[str, float]) -> list[TaskCurve]:
    """One curve per workload with a valid record, the heaviest first."""
    from tilework.record import best_of

    ordered = _searched(records, weights)
    clock = _clock(ordered)
    found: dict[str, list[tuple[int, Record]]] = {}
    for count, record in enumerate(ordered, 1):
        found.setdefault(record.workload_key, []).append((count, record))
    best = {key: best_of(r for r in records if r.workload_key == key) for key in found}
    cost = {key: weights[key] * (b.latency_s or 0.0) for key, b in best.items() if b is not None}
    curves = []
    for key in sorted(cost, key=lambda key: -cost[key]):
        rows, winner = found[key], best[key]
        assert winner is not None
        curves.append(
            TaskCurve(
                rows[0][1].workload,
                tuple(count for count, _ in rows),
                tuple(clock[r.created_at] for _, r in rows),
                tuple(_gflops(r) for _, r in rows),
                _gflops(winner) if winner.purpose == "final" else None,
                cost[key] / sum(cost.values()),
            )
        )
    return curves


def _searched(records: Sequence[Record], weights: Mapping[str, float]) -> list[Record]:
    return [r for r in records if r.workload_key in weights and r.purpose == "search"]


def _gflops(record: Record) -> float:
    if not record.usable or record.latency_s is None:
        return math.nan
    return record.flops / record.latency_s / 1e9


def _clock(records: Sequence[Record]) -> dict[datetime, float]:
    """Seconds of work since the first record, by when a round was stored, as a budget counts."""
    from tilework.search.budget import LONGEST_GAP_S

    times = sorted({r.created_at for r in records})
    out = dict.fromkeys(times[:1], 0.0)
    for before, after in pairwise(times):
        gap = (after - before).total_seconds()
        out[after] = out[before] + (gap if gap <= LONGEST_GAP_S else 0.0)
    return out


def plot_png(curve: Curve, network: str, tasks: Sequence[TaskCurve] = ()) -> bytes:
    """The curves as a PNG picture.

    The first row shows the network: the sum of its tasks' best latencies, against trials and
    against time. Below, two panels for each task: every measurement as a point, the best found so
    far as a line, and what finals said of the winner as a dashed line.
    """
    import io

    from matplotlib.figure import Figure

    shown = list(tasks)[:MOST_PANELS]
    columns = 2 if len(shown) <= 2 else 4
    rows = 1 + math.ceil(2 * len(shown) / columns)
    size = (4.2 * columns, 3.2 + 2.1 * (rows - 1))
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    grid = figure.add_gridspec(rows, columns, height_ratios=[1.5] + [1.0] * (rows - 1))
    half = columns // 2
    for place, (values, label) in enumerate(
        ((curve.trials, "trials"), (curve.seconds or curve.trials, "seconds"))
    ):
        axes = figure.add_subplot(grid[0, place * half : (place + 1) * half])
        _plot_total(axes, values, curve, label)
    for number, task in enumerate(shown):
        row, column = 1 + 2 * number // columns, 2 * number % columns
        last = row == rows - 1 or number + columns // 2 >= len(shown)
        for place, (values, label) in enumerate(
            ((task.trials, "trials"), (task.seconds, "seconds"))
        ):
            axes = figure.add_subplot(grid[row, column + place])
            _plot_task(axes, values, task, label if last else "", named=place == 0)
    hidden = len(tasks) - len(shown)
    more = f"; {hidden} lighter tasks are not shown" if hidden else ""
    figure.suptitle(f"{network}: what the search found{more}")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _plot_total(axes: Any, values: Sequence[float], curve: Curve, label: str) -> None:
    totals = [1e3 * s for s in curve.total_s]
    axes.step(values, totals, where="post", color="#2563eb")
    axes.plot(values[-1:], totals[-1:], "o", color="#2563eb")
    if totals:  # room around the curve: on the frame a flat one cannot be seen
        low, high = min(totals), max(totals)
        room = max(0.1 * (high - low), 0.02 * high)
        axes.set_ylim(low - room, high + room)
        axes.annotate(
            f"{totals[-1]:.3g} ms", (values[-1], totals[-1]), (-4, 8),
            textcoords="offset points", ha="right",
        )  # fmt: skip
    axes.set_xlabel(label)
    axes.set_ylabel("network, ms")
    axes.set_title("sum of the tasks' best latencies", fontsize=9)
    axes.grid(alpha=0.3)


def _plot_task(
    axes: Any, values: Sequence[float], task: TaskCurve, label: str, named: bool
) -> None:
    axes.plot(values, task.gflops, ".", color="#94a3b8", markersize=3)
    failed = [v for v, g in zip(values, task.gflops, strict=True) if math.isnan(g)]
    axes.plot(failed, [0.0] * len(failed), "x", color="#dc2626", markersize=3)
    axes.step(values, task.best, where="post", color="#2563eb", linewidth=1.2)
    if task.final_gflops is not None:
        axes.axhline(task.final_gflops, color="#16a34a", linestyle="--", linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    axes.set_xlabel(label, fontsize=8)
    if named:
        axes.set_ylabel("GFLOPS", fontsize=8)
        name = task.name if len(task.name) <= 46 else task.name[:45] + "…"
        axes.set_title(f"{name}  ({task.share:.0%})", fontsize=8, loc="left")
