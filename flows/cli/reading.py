"""Reading a store for a command that only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.cli import options
from flows.cli.output import warn
from tilework.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

    from storage import RecordStore
    from storage.files import Location
    from storage.packages import Knowledge


def to_read(path: str) -> RecordStore:
    """A store with all its records, whatever rules made them.

    Raises:
        StoreError: there is no store, or it cannot be opened.
    """
    from storage import RecordStore

    return RecordStore(path, must_exist=True)


def used_by(path: str, *, packages: bool = True) -> Knowledge:
    """What networks are compiled with: the records of a store of today's rules, then packages.

    A store that was named has to be there. That of the usual name need not be, before anything was
    tuned: `say_problems` tells.

    Args:
        packages: whether installed and shipped packages are looked at.

    Raises:
        StoreError: there is no such store, or it cannot be opened.
    """
    from storage.packages import knowledge
    from tasks.stores import open_store

    store = open_store(path, must_exist=path != options.DEFAULT_STORE)
    return knowledge(store, packages=packages)


def existing_store(path: str) -> Location:
    """Where a store lies.

    Raises:
        StoreError: there is none, or it cannot be reached.
    """
    place = place_of(path)
    if not place.is_there():
        raise StoreError(
            f"there is no record store at {place.text!r}; name one with --store, "
            "or make one with `tilework tune`"
        )
    return place


def place_of(path: str) -> Location:
    """Where a store lies, or is to lie.

    Raises:
        StoreError: it is a URI that cannot be opened.
    """
    from storage.files import Location

    return Location.of(path)


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


def say_problems(known: RecordStore | Knowledge) -> None:
    """On stderr, what was met so far and could not be used; or that there is nothing to use."""
    from storage.packages import Knowledge

    store, names = (known.store, known.names) if isinstance(known, Knowledge) else (known, [])
    if store is not None and not store.location.is_there():
        rest = "packages alone are used" if names else "nothing is tuned"
        warn(f"there is no record store at {store.path!r} yet: {rest}")
    for problem in known.problems:
        warn(f"warning: {problem}")
