"""Progress of a tuning run on the terminal: a live table, or one line per round elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from flows.cli.output import console, table
from flows.numbers import latency, show_ms, speed
from flows.reporting import Reporter
from tilework.target.runs import caveat, mark

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tasks.report import Progress
    from tilework.search.report import TaskRow


def reporter_for(json: bool) -> Reporter:
    """The reporter that suits stdout: silent for JSON, live on a terminal, lines otherwise."""
    if json:
        return Reporter()
    return LiveReporter() if sys.stdout.isatty() else LineReporter()


def clock(seconds: float) -> str:
    """``seconds`` as m:ss."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def budget_text(progress: Progress) -> str:
    """Trials and time spent, each with its limit where there is one."""
    trials = f"{progress.trials} trials"
    if progress.trials_budget is not None:
        trials = f"{progress.trials} of {progress.trials_budget} trials"
    spent = clock(progress.elapsed_s)
    if progress.seconds_budget is not None:
        spent += f" of {clock(progress.seconds_budget)}"
    return f"{trials}, {spent}"


def total_text(progress: Progress) -> str:
    """The estimated total latency, and how many tasks' share of it is measured."""
    total = latency(progress.estimated_total_s)
    text = f"estimated total latency {total}{mark(progress.target)}"
    if progress.measured_tasks < len(progress.rows):
        text += f", {progress.measured_tasks} of {len(progress.rows)} tasks measured"
    return text


def drift_text(drift: float) -> str:
    """A word on the machine's speed, if its calibration is noticeably off; else nothing."""
    from tilework.measure.drift import LIMIT

    if abs(drift) <= LIMIT:
        return ""
    return f"  [machine {abs(drift):.0%} {'slower' if drift > 0 else 'faster'} than usual]"


class LineReporter(Reporter):
    """One plain line per event, for logs and pipes."""

    def stage(self, text: str) -> None:
        """Print the stage's name."""
        typer.echo(text)

    def note(self, text: str) -> None:
        """Print the note."""
        typer.echo(text)

    def progress(self, progress: Progress) -> None:
        """Print the task that was just measured and the total so far."""
        if progress.current is None:
            return
        row = progress.rows[progress.current]
        kind = "final" if progress.final else "round"
        typer.echo(
            f"{kind} {progress.rounds:3d}  task {row.id:2d} {row.desc[:28]:28s} "
            f"{show_ms(row.latency_ms):>9s} ms {speed(row.gflops):>7s} GFLOPS  "
            f"{total_text(progress)}  ({budget_text(progress)}){drift_text(progress.drift)}"
        )


class LiveReporter(Reporter):
    """A table that is redrawn in place while the rounds go by."""

    def __init__(self) -> None:
        self._live: object | None = None
        self._console = console()
        self._progress: Progress | None = None
        self._stage = ""
        self._begin = time.monotonic()

    def stage(self, text: str) -> None:
        """Show the stage under the table; before the first round, print it."""
        self._stage = text
        if self._progress is None:
            self._console.print(text)
        self._draw()

    def note(self, text: str) -> None:
        """Print the note above the table."""
        self._console.print(text)

    def progress(self, progress: Progress) -> None:
        """Redraw the table."""
        self._progress = progress
        self._draw()

    def close(self) -> None:
        """Take the live table away; the caller prints the final one."""
        if self._live is not None:
            self._live.stop()  # type: ignore[attr-defined]
            self._live = None

    def _draw(self) -> None:
        if self._progress is None:
            return
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        self._live.update(self._render(self._progress))  # type: ignore[attr-defined]

    def _render(self, progress: Progress) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        height = self._console.size.height - 7
        rows = progress.rows
        if len(rows) > height > 0:  # keep the costliest in sight
            rows = tuple(
                sorted(
                    sorted(rows, key=lambda r: -(r.latency_ms or 1e9) * r.weight)[:height],
                    key=lambda r: r.id,
                )
            )
        footer = Text(f"{total_text(progress)}  ({budget_text(progress)})  {self._stage}")
        footer.append(drift_text(progress.drift))
        return Group(task_table(progress, rows), footer)


def task_table(progress: Progress, rows: tuple[TaskRow, ...] | None = None) -> RenderableType:
    """The task table of the auto-scheduler's users: ID, description, latency, speed, trials."""
    from rich.text import Text

    shown = progress.rows if rows is None else rows
    return table(
        [">ID", "Description", ">Weight", ".Latency (ms)", ".Speed (GFLOPS)", ">Trials"],
        [
            (
                Text(str(row.id), "bold") if row.id == progress.current else row.id,
                row.desc,
                f"{row.weight:g}",
                show_ms(row.latency_ms),
                speed(row.gflops),
                row.trials,
            )
            for row in shown
        ],
        title=caveat(progress.target) or None,
    )
