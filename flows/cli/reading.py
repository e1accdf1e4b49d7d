"""Reading a store for a command that only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.cli import options
from flows.cli.device import warn

if TYPE_CHECKING:
    import pandas as pd

    from storage import RecordStore


def to_read(path: str) -> RecordStore:
    """A store with all its records, whatever rules made them.

    Raises:
        StoreError: there is no store, or it cannot be opened.
    """
    from storage import RecordStore

    return RecordStore(path, must_exist=True)


def used_by(path: str) -> RecordStore:
    """The records of a store that its networks are compiled with: those of today's rules.

    A store that was named has to be there. That of the usual name need not be, before anything was
    tuned: `say_problems` tells.

    Raises:
        StoreError: there is no such store, or it cannot be opened.
    """
    from tasks.stores import open_store

    return open_store(path, must_exist=path != options.DEFAULT_STORE)


def columns_of(
    store: RecordStore,
    columns: Sequence[str],
    network: str | None = None,
    target: str | None = None,
) -> pd.DataFrame:
    """Columns of the records that are wanted (`tasks.analysis.frames`)."""
    from tasks.analysis.frames import load, wanted

    frame = wanted(load(store, columns), network=network, target=target)
    say_problems(store)
    return frame


def say_problems(store: RecordStore) -> None:
    """On stderr, what of the store was met so far and could not be used; or that there is none."""
    if not store.location.is_there():
        warn(f"there is no record store at {store.path!r} yet: nothing is tuned")
    for problem in store.problems:
        warn(f"warning: {problem}")
