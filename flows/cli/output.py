"""What commands print: tables and lines for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console() -> Console:
    """A console on today's stdout; wide enough for our tables when it is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 110, highlight=False, soft_wrap=False)


def say(text: str) -> None:
    """A line on stderr, beside the results."""
    typer.echo(text, err=True)


def warn(text: str) -> None:
    """A line on stderr that stands out."""
    typer.secho(text, fg="yellow", err=True)


def fail(reason: str) -> NoReturn:
    """Say why the command has failed, and end it."""
    typer.secho(f"failed: {reason}", fg="red", err=True)
    raise typer.Exit(1)


def print_json(document: Any) -> None:
    """Print ``document`` on stdout; dataclasses, paths and enums are written as plain values."""
    typer.echo(json.dumps(document, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return value.tolist()
    return str(value)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None
) -> Table:
    """A table; a column whose name starts with ``>`` is right-aligned, with ``.`` at its points.

    Cells are plain text: what looks like markup in them is printed as it stands. A cell that has
    a style is a `rich.text.Text`.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        right = name[:1] in (">", ".")
        grid.add_column(
            name.lstrip(">."), justify="right" if right else "left", no_wrap=right,
            overflow="fold",
        )  # fmt: skip
    cells = [list(row) for row in rows]
    for place, name in enumerate(columns):
        if name.startswith("."):
            aligned = at_points(["" if row[place] is None else str(row[place]) for row in cells])
            for row, text in zip(cells, aligned, strict=True):
                row[place] = text
    for row in cells:
        grid.add_row(
            *(
                cell if isinstance(cell, Text) else Text("" if cell is None else str(cell))
                for cell in row
            )
        )
    return grid


def at_points(texts: Sequence[str]) -> list[str]:
    """``texts`` with spaces behind them, so that right-aligned their decimal points line up.

    A text without a point is a whole number, or no number: its end counts as the point.
    """
    tails = [len(text) - text.find(".") if "." in text else 0 for text in texts]
    return [text + " " * (max(tails) - tail) for text, tail in zip(texts, tails, strict=True)]
