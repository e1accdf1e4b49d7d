"""What commands measure on and read from: the device of a target, and a store that is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from flows.cli import options

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.target import Target


@contextmanager
def held(target: Target, who: str) -> Iterator[None]:
    """Hold the target's device (`tasks.device_lock`); waiting for it is said on stderr."""
    from tasks.device_lock import hold_device
    from tilework.target.identity import device_here

    with hold_device(device_here(target), who, tell=warn):
        yield


def warn(text: str) -> None:
    """A line on stderr that stands out."""
    typer.secho(text, fg="yellow", err=True)


def store_to_read(store: str) -> RecordStore:
    """The store of a command that only reads.

    One that was named has to be there. That of the usual name need not be, before anything was
    tuned: `say_what_is_missing` tells.

    Raises:
        StoreError: there is no such store.
    """
    from tasks.stores import open_store

    return open_store(store, must_exist=store != options.DEFAULT_STORE)


def say_what_is_missing(records: RecordStore) -> None:
    """A line on stderr if there is no store yet, and for each thing of it that is not used."""
    if not records.location.is_there():
        warn(f"there is no record store at {records.path!r} yet: nothing is tuned")
    for line in records.problems:
        warn(f"warning: {line}")
