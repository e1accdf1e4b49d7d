"""What a person means by "since": a date, an age, a version of the engine, or a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tilework.errors import TileworkError

if TYPE_CHECKING:
    import pandas as pd

SHORTEST_RUN = 6
"""Characters of a run's id that name it: fewer could be an age."""

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Moment:
    """A point in time, and how a person calls it."""

    at: datetime
    said: str

    def __str__(self) -> str:
        return self.said


def moment_of(text: str, frame: pd.DataFrame, now: datetime) -> Moment:
    """The time that ``text`` names.

    Args:
        text: a date such as ``2026-11-20`` or ``2026-11-20 18:00`` (local time), an age such as
            ``12h`` or ``3d``, a version of the engine or how its commit begins (the time of its
            first record), or how a run's id begins (six characters or more: the same).
        frame: records, with ``created_at``, ``run_id`` and ``engine_version``.
        now: an aware time, which ages count from.

    Raises:
        TileworkError: it names no time, or several runs.
    """
    if span := re.fullmatch(r"(\d{1,4})([mhdw])", text):
        at = now - timedelta(**{_UNITS[span[2]]: float(span[1])})
        return Moment(at, f"{at.astimezone():%Y-%m-%d %H:%M}")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return _of_records(text, frame)
    at = at.astimezone() if at.tzinfo is None else at
    return Moment(at, f"{at:%Y-%m-%d %H:%M}")


def _of_records(text: str, frame: pd.DataFrame) -> Moment:
    versions = [one for one in map(str, frame["engine_version"].unique()) if _names(text, one)]
    if versions:
        rows = frame[frame["engine_version"].isin(versions)]
        return Moment(_first(rows), f"version {text}")
    runs = [str(run) for run in frame["run_id"].unique()]
    runs = [text] if text in runs else [run for run in runs if run.startswith(text)]
    if len(text) < SHORTEST_RUN:
        runs = []
    if len(runs) == 1:
        return start_of(runs[0], frame)
    if runs:
        raise TileworkError(f"--since {text}: {len(runs)} runs begin with it; give more of its id")
    raise TileworkError(
        f"--since {text}: write a date (2026-11-20), an age (12h, 3d), a version or a commit of "
        "the engine that has records, or a run's id, six characters of it or more "
        "(`tilework records show` lists them)"
    )


def _names(text: str, version: str) -> bool:
    """Whether ``text`` means a version: it is all of it, or how its commit begins."""
    number, _, revision = version.partition("+")
    if text in (version, number):
        return True
    return len(text) >= SHORTEST_RUN and revision[1:].startswith(text.removeprefix("g"))


def start_of(run_id: str, frame: pd.DataFrame) -> Moment:
    """When a run made its first record."""
    return Moment(_first(frame[frame["run_id"] == run_id]), f"run {run_id}")


def _first(rows: pd.DataFrame) -> datetime:
    first: datetime = rows["created_at"].min().to_pydatetime()
    return first
