"""Pictures of how a search converged, small enough to be kept in a database."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.numbers import latency, percent, plural, unit_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from flows.convergence import Curve, TaskCurve

MOST_TASKS = 30
"""Tasks that get panels: those that take most of the network's time."""

LINE, DOT, FINAL, FAILED = "#1d4ed8", "#94a3b8", "#15803d", "#dc2626"
_HEAD, _TOTAL, _PANEL, _FOOT = 0.45, 2.4, 1.6, 0.55
_ABOVE, _BELOW = 0.28, 0.36
"""Heights in inches: of the title, the network's panels, a task's, the legend; and what titles and
ticks take of a panel."""

_TERA_FROM = 4000.0
"""A task that is as fast, in GFLOP/s, is drawn in TFLOP/s."""

_LOG_FROM = 4.0
"""A network's curve that falls by more than this factor is drawn with a logarithmic scale."""


def plot_png(curve: Curve, network: str, tasks: Sequence[TaskCurve] = ()) -> bytes:
    """The curves as a PNG picture.

    The first row shows the network: the sum of its tasks' best latencies, against candidates and
    against time. Below, two panels for each task: every measurement as a point, and as a line
    what counts as the best, which finals have the last word on.

    Args:
        curve: of the network.
        network: what the picture is called.
        tasks: the heaviest first.
    """
    from matplotlib.figure import Figure

    shown = list(tasks)[:MOST_TASKS]
    columns = 2 if len(shown) <= 2 else 4
    half = columns // 2
    rows = math.ceil(2 * len(shown) / columns)
    width, height = (10.0 if half == 1 else 12.4), _HEAD + _TOTAL + _PANEL * rows + _FOOT
    figure = Figure(figsize=(width, height), dpi=80)
    figure.suptitle(_title(network, len(tasks) - len(shown)), y=1 - 0.16 / height, va="top")
    place = _Places(figure, width, height)
    left = place.axes(0.0, 0.5, _HEAD, _TOTAL)
    right = place.axes(0.5, 0.5, _HEAD, _TOTAL, sharey=left)
    _draw_total(left, curve.trials, curve, "candidates measured")
    _draw_total(right, curve.seconds, curve, "seconds of search")
    for number, task in enumerate(shown):
        row, column = divmod(number, half)
        top = _HEAD + _TOTAL + _PANEL * row
        left = place.axes(column / half, 0.5 / half, top, _PANEL)
        right = place.axes((column + 0.5) / half, 0.5 / half, top, _PANEL, sharey=left)
        _draw_task(left, [p.trial for p in task.points], task, whole=True)
        _draw_task(right, [p.seconds for p in task.points], task, whole=False)
        _label_task(left, right, task, lowest=number + half >= len(shown))
    _legend(figure, points=bool(shown), assumed=bool(curve.assumed))
    return small_png(figure)


@dataclass(frozen=True)
class _Places:
    """Where panels stand in a picture of so many inches; titles may be wider than their panel."""

    figure: Figure
    width: float
    height: float

    def axes(self, left: float, share: float, top: float, tall: float, **options: Any) -> Any:
        """A panel from ``left`` (a share of the width), ``top`` inches below the upper edge."""
        edge = left + 0.52 / self.width
        bottom = 1 - (top + tall - _BELOW) / self.height
        wide = share - 0.64 / self.width
        high = (tall - _ABOVE - _BELOW) / self.height
        return self.figure.add_axes((edge, bottom, wide, high), **options)


def _title(network: str, hidden: int) -> str:
    more = f"; {hidden} lighter task{plural(hidden)} left out" if hidden else ""
    return f"{network}: what the search found{more}"


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG with a palette: a third of the bytes, and no difference to the eye."""
    from PIL import Image

    raw, small = io.BytesIO(), io.BytesIO()
    figure.savefig(raw, format="png")
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in _palette() for part in colour])
    picture = Image.open(raw).convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE)
    picture.save(small, format="png", optimize=True)
    return small.getvalue()


def _palette() -> list[tuple[int, ...]]:
    """Every colour that is drawn, and its blends with the white behind it: the edges of lines.

    Colours are given, not found: a rare one, such as that of the only failure, must not be lost.
    """
    out = []
    for name in (LINE, DOT, FINAL, FAILED, "#000000"):
        colour = [int(name[place : place + 2], 16) for place in (1, 3, 5)]
        for share in (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1):
            out.append(tuple(round(255 - share * (255 - part)) for part in colour))
    return [*out, (255, 255, 255)]


def _draw_total(axes: Any, values: Sequence[float], curve: Curve, label: str) -> None:
    axes.set_xlabel(label, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    title = "sum of the tasks' best latencies"
    axes.set_title(title, fontsize=9, loc="left")
    if not curve.total_s:
        return
    last = curve.total_s[-1]
    axes.set_title(f"{title}: {latency(last)}", fontsize=9, loc="left")
    unit = unit_of(last)
    totals = [unit.of(s) for s in curve.total_s]
    _ticks(axes, max(values), whole=values is curve.trials)
    known = curve.assumed
    if known:
        part = slice(0, known + 1)
        axes.step(values[part], totals[part], where="post", color=LINE, linestyle=":", zorder=3)
    axes.step(values[known:], totals[known:], where="post", color=LINE, linewidth=1.8, zorder=3)
    axes.plot(values[-1:], totals[-1:], "o", color=LINE, markersize=5, zorder=4)
    low, high = min(totals), max(totals)
    if high > _LOG_FROM * low:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
    else:  # room around the curve: on the frame a flat one cannot be seen
        room = max(0.15 * (high - low), 0.02 * high)
        axes.set_ylim(low - room, high + room)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel(f"network, {unit.name}", fontsize=8)


def _draw_task(axes: Any, values: Sequence[float], task: TaskCurve, *, whole: bool) -> None:
    points = task.points
    tried = [(v, p.gflops) for v, p in zip(values, points, strict=True) if not p.final]
    final = [(v, p.gflops) for v, p in zip(values, points, strict=True) if p.final]
    failed = [v for v, p in zip(values, points, strict=True) if math.isnan(p.gflops)]
    axes.plot(*_columns(tried), ".", color=DOT, markersize=5, zorder=2)
    axes.plot(*_columns(final), "D", color=FINAL, markersize=3.5, zorder=3)
    axes.plot(
        failed, [0.0] * len(failed), "x", color=FAILED, markersize=4, zorder=3, clip_on=False
    )
    end = 1.04 * max(values, default=1.0)  # so that what finals said is a line, too
    best = [p.best_gflops for p in points]
    axes.step([*values, end], [*best, best[-1]], where="post", color=LINE, linewidth=1.6, zorder=4)
    axes.set_ylim(0, 1.18 * _top(task))
    if _top(task) >= _TERA_FROM:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e3:g}")
    _ticks(axes, end, whole=whole)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)


def _top(task: TaskCurve) -> float:
    return max((p.gflops for p in task.points if not math.isnan(p.gflops)), default=1.0)


def _label_task(left: Any, right: Any, task: TaskCurve, *, lowest: bool) -> None:
    left.set_ylabel("TFLOPS" if _top(task) >= _TERA_FROM else "GFLOPS", fontsize=7)
    right.tick_params(labelleft=False)
    if lowest:
        left.set_xlabel("candidates of the task", fontsize=8)
        right.set_xlabel("seconds of the task", fontsize=8)
    name = task.name if len(task.name) <= 52 else task.name[:51] + "…"
    left.set_title(f"{name}  ({percent(task.share)})", fontsize=8, loc="left")


def _ticks(axes: Any, last: float, *, whole: bool) -> None:
    """An axis from zero with whole numbers; parts only of the few seconds that have too few."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0, 1.03 * last or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=whole or last >= 3, min_n_ticks=1))


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _legend(figure: Figure, *, points: bool, assumed: bool) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=LINE, linewidth=1.6, label="what counts as the best")]
    if assumed:
        said = "tasks not measured yet count as their first measurement"
        marks.append(Line2D([], [], color=LINE, linestyle=":", label=said))
    if points:
        marks += [
            Line2D([], [], color=DOT, marker=".", linestyle="", label="measurement"),
            Line2D([], [], color=FINAL, marker="D", markersize=4, linestyle="", label="of finals"),
            Line2D([], [], color=FAILED, marker="x", markersize=5, linestyle="", label="failed"),
        ]
    figure.legend(handles=marks, loc="lower center", ncols=len(marks), fontsize=8, frameon=False)
