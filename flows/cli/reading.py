"""Reading a store for a command that only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.cli.places import warn

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
    """What of the store was met so far and could not be used, on stderr."""
    for problem in store.problems:
        warn(f"warning: {problem}")
