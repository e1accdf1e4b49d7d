"""Runs of a schedule that come before there is anything to do: they end well, and say so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from flows.shell.published import PublishedRun
from tasks.patience import patiently
from tasks.stores import is_there


def nothing_yet(run: PublishedRun, name: str, stores: Iterable[str], what: str) -> bool:
    """Whether none of the stores is there yet; then the run is told so, in its log and name.

    A schedule starts before the first tuning run has made a store. That is no failure, and
    nobody is to be woken for it.

    Args:
        run: under way.
        name: of the run, so far.
        stores: paths or URIs; a run of several has something to do if one is there.
        what: there is nothing to do yet, in words.

    Raises:
        StoreError: a store cannot be looked for.
    """
    places = list(stores)
    if any(patiently(partial(is_there, place), run.warning) for place in places):
        return False
    shown = ", ".join(repr(place) for place in places)
    run.info(f"{what}: there is no record store at {shown}; the first tuning run makes it")
    run.describe(f"{name} · {what}")
    return True
