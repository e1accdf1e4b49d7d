"""Progress of a tuning run on the terminal: a live table, or one line per round elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from flows.cli.output import console, table
from flows.numbers import show_ms, speed
from flows.reporting import Reporter
from flows.texts import budget_text, drift_text, round_line, total_text
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tasks.report import Progress
    from tilework.search.report import TaskRow


def reporter_for(json: bool) -> Reporter:
    """The reporter that suits stdout: silent for JSON, live on a terminal, lines otherwise."""
    if json:
        return Reporter()
    return LiveReporter() if sys.stdout.isatty() else LineReporter()


class LineReporter(Reporter):
    """One plain line per event, for logs and pipes."""

    def stage(self, text: str) -> None:
        """Print the stage's name."""
        typer.echo(text)

    def note(self, text: str) -> None:
        """Print the note."""
        typer.echo(text)

    def progress(self, progress: Progress) -> None:
        """Print what the round brought, and the total so far."""
        if progress.current is not None:
            typer.echo(round_line(progress))


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
