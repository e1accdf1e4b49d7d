"""Opening a store that a command only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.cli.device import warn

if TYPE_CHECKING:
    from storage import RecordStore


def to_read(path: str) -> RecordStore:
    """All records of a store, whatever rules made them; what cannot be read is said on stderr.

    Raises:
        StoreError: there is no store, or it cannot be opened.
    """
    from storage import RecordStore

    return _said(RecordStore(path, must_exist=True))


def to_use(path: str, *, must_exist: bool = True) -> RecordStore:
    """The records of a store that the present rules made; what is not used is said on stderr.

    Raises:
        StoreError: see `to_read`.
    """
    from tasks.stores import open_store

    return _said(open_store(path, must_exist=must_exist))


def _said(store: RecordStore) -> RecordStore:
    for problem in store.problems:
        warn(f"warning: {problem}")
    return store
