"""Looking after a store: check, repair, compact, distill, clear away."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tasks.patience import patiently
from tilework.errors import StoreError

if TYPE_CHECKING:
    from storage.files import Location
    from storage.maintenance.check import Check

MOST_SHOWN = 20
"""Findings that are listed; a store of which every file is old would fill a page."""


@dataclass(frozen=True)
class Upkeep:
    """What looking after a store came to.

    Attributes:
        store: where it is, for people.
        done: one line for each step, what it did.
        mended: what was wrong, and is not any more.
        open: what is wrong still: somebody should look.
        skipped: why nothing was done; empty if it was.
        files, rows: of records, at the end.
        seconds: how long it all took.
    """

    store: str
    done: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    skipped: str = ""
    files: int = 0
    rows: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """One line."""
        if self.skipped:
            return self.skipped
        size = f"{self.rows} records in {self.files} file{_s(self.files)}"
        if self.open:
            return f"{len(self.open)} thing{_s(len(self.open))} to look at; {size}"
        mended = f"{len(self.mended)} thing{_s(len(self.mended))} mended; " if self.mended else ""
        return f"{mended}sound; {size}"


def look_after(store: str, repair: bool, tell: Callable[[str], None]) -> Upkeep:
    """Check a store, repair it if that is asked, then compact, distill and clear away.

    Others may read and write meanwhile. If another process looks after the store already, nothing
    is done.

    Args:
        store: directory or URI.
        repair: set damaged files aside, with their bytes, and finish what others began.
        tell: gets a line for each step.

    Raises:
        StoreError: there is no such store, or it cannot be read or written.
    """
    from storage.files import Location

    place = patiently(lambda: Location.of(store), tell)
    if not patiently(place.is_there, tell):
        raise StoreError(f"there is no record store at {place.text!r}: tune something first")
    try:
        return _look_after(place, repair, tell)
    except _Elsewhere as claimed:
        return Upkeep(place.text, skipped=f"skipped: {claimed}")


class _Elsewhere(Exception):
    """Another process looks after the store; not to be waited for, as a full disk is."""


def _look_after(place: Location, repair: bool, tell: Callable[[str], None]) -> Upkeep:
    from storage.maintenance.check import check
    from storage.maintenance.holdings import look

    began = time.monotonic()
    done = []
    first = checked = patiently(lambda: check(place), tell)
    for step in (*((_repair,) if repair and not first.sound else ()), _compact, _distill, _vacuum):
        for line in patiently(partial(_unclaimed, step, place), tell):
            done.append(line)
            tell(line)
    if not first.sound:
        checked = patiently(lambda: check(place), tell)
    return Upkeep(
        place.text,
        tuple(done),
        mended=_lines(first, but=checked),
        open=_lines(checked),
        files=len(look(place).names),
        rows=checked.rows,
        seconds=time.monotonic() - began,
    )


def _unclaimed(step: Callable[[Location], list[str]], place: Location) -> list[str]:
    from storage.maintenance.claim import Claimed

    try:
        return step(place)
    except Claimed as claimed:
        raise _Elsewhere(str(claimed)) from None


def _repair(place: Location) -> list[str]:
    from storage.maintenance.repair import repair

    done = repair(place)
    return [*done.lines, *(f"not all rows of {name} could be saved" for name in done.lost)]


def _compact(place: Location) -> list[str]:
    from storage.maintenance.compact import compact

    done = compact(place)
    if not done.made:
        return []
    written = f"{len(done.made)} file{_s(len(done.made))} of {done.rows} records"
    return [f"compacted: {done.rounds} rounds became {written}"]


def _distill(place: Location) -> list[str]:
    from storage.maintenance.distill import distill

    done = distill(place)
    return [f"distilled: {done.rows} records of {done.keys} tasks"] if done.keys else []


def _vacuum(place: Location) -> list[str]:
    from storage.maintenance.vacuum import vacuum

    done = vacuum(place)
    return [f"cleared away: {len(done.removed)} files"] if done.removed else []


def _lines(check: Check, but: Check | None = None) -> tuple[str, ...]:
    """The findings of a check, but for those of another one."""
    known = {str(finding) for finding in but.findings} if but is not None else set()
    lines = [str(finding) for finding in check.findings if str(finding) not in known]
    if len(lines) > MOST_SHOWN:
        lines = [*lines[:MOST_SHOWN], f"and {len(lines) - MOST_SHOWN} more"]
    return tuple(lines)


def _s(count: int) -> str:
    return "" if count == 1 else "s"
