"""What ``--verbose`` shows: the log of the engine, on stderr."""

from __future__ import annotations

import logging

import typer


class _Lines(logging.Handler):
    """A record is a line; where stderr goes is asked each time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        typer.secho(f"{record.levelname.lower()}: {record.getMessage()}", dim=True, err=True)


_LINES = _Lines()


def show_log(wanted: bool) -> bool:
    """Show what the engine notes beside its results, such as a pass that was left out."""
    log = logging.getLogger("tilework")
    log.removeHandler(_LINES)
    if wanted:
        log.addHandler(_LINES)
        log.setLevel(logging.INFO)
    return wanted
