"""The files of a store, as they were looked at last, and questions that are asked of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from storage.files import Location
from storage.index import Index
from storage.listing import Listing
from storage.scan import Scan
from storage.tables import Tables, Unusable
from storage.upgrade import upgrade
from tilework.errors import StoreBusy

_TRIES = 8

Answer = TypeVar("Answer")


class Reading:
    """What is known of a store's files, which others add to and compact at any time.

    Attributes:
        lock: held while anything of this is read or changed.
        index: which files hold what.
        forget: called when a file was written anew under the name that it had.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.lock = threading.RLock()
        self.index = Index(Tables(location))
        self.forget: Callable[[], None] = lambda: None
        self._listing = Listing(location)
        self._upgraded = False

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question that reads files; asked again if one of them was compacted."""
        with self.lock:
            for attempt in range(_TRIES):
                try:
                    self.look(force=attempt > 0)
                    self.index.load()
                    return question()
                except FileNotFoundError:
                    continue
            raise self._restless()

    def run(self, whole: Scan) -> Iterator[pa.Table]:
        """The tables of a scan, which goes on where files were compacted meanwhile."""
        for attempt in range(_TRIES):
            with self.lock:
                self.look(force=attempt > 0)
            try:
                with self.lock:
                    self.index.load()
                yield from self._locked(whole.run(self.index))
                return
            except FileNotFoundError:
                continue
        raise self._restless()

    def _locked(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Each table is read with the store locked, and handed on without."""
        while True:
            with self.lock:
                table = next(tables, None)
            if table is None:
                return
            yield table

    def look(self, *, force: bool = False) -> None:
        """See which files there are now."""
        changes = self._listing.look(force=force)
        if changes.added or changes.removed:
            self.index.update(changes)
        if changes.added & changes.removed:  # written anew under the same name
            self.forget()

    def upgrade(self) -> None:
        """Rewrite what a store of an older version holds, once."""
        if self._upgraded:
            return
        self.look(force=True)
        for name in upgrade(self.location, self._listing.files):
            self.index.mend(name)
        self._upgraded = True

    def write(self, name: str, content: bytes) -> None:
        """Write a file of records; one that is there and whole is left as it is."""
        if not self.location.create(name, content):
            try:
                self.index.tables.read(name)
            except (Unusable, FileNotFoundError):
                self.location.write(name, content)
        self.index.mend(name)
        self._listing.wrote(name)

    def _restless(self) -> StoreBusy:
        return StoreBusy(
            f"cannot read the record store {self.location.text!r}: its files change faster than "
            "they can be read; try again"
        )
