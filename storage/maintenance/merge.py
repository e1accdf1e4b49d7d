"""Putting stores together: what the other one lacks is copied, and no record comes twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from storage.bests import KIND as BESTS
from storage.documents import Documents
from storage.files import Location
from storage.maintenance.check import hidden_folders
from storage.maintenance.claim import KIND as CLAIMS
from storage.maintenance.compact import Compaction, compact, rewrite, round_numbers
from storage.maintenance.holdings import Damaged, Vanished, base, look, reading
from storage.maintenance.repair import KIND as DAMAGED
from storage.maintenance.rows import by_round, parts_of, round_names, rows_of_unnamed
from storage.moves import MOVES
from storage.schema import check_schema
from storage.tables import encode
from storage.upgrade import OLD_FORMS
from tilework.errors import StoreError

_OWN = (BESTS, CLAIMS, DAMAGED, MOVES)
"""Documents that say something of their own store only. Models are added; which of them is the
champion is for each store to say."""


@dataclass
class Merged:
    """What a merge did.

    Attributes:
        rounds: rounds that were added.
        known: rounds that were there already.
        left: files of the sources that could not be read, with the reason.
    """

    rounds: int = 0
    known: int = 0
    left: dict[str, str] = field(default_factory=dict)


def merge(sources: Sequence[Location], into: Location) -> Merged:
    """Adds the rounds and documents of other stores to a store.

    A round's file never changes, so one of the same name is left alone. Where files of both hold
    parts of the same rounds, as a store and its own bests do, they are compacted into one, so that
    every record stands once.

    Raises:
        StoreError: a source is missing, a store cannot be read, or ``into`` not be written.
    """
    done = Merged()
    there = _There.of(into)
    for source in sources:
        held = look(source)
        if not held.names:
            raise StoreError(f"there are no records at {source.text!r}: nothing to merge")
        for name in held.rounds:
            _add_file(source, name, frozenset([name]), there, done)
        for name, file in held.compacts.items():
            _add_file(source, name, file.rounds, there, done)
        for name in held.others:
            _add_rows(source, name, there, done)
        done.left.update(held.damaged)
        _add_documents(source, into)
    if there.shared:
        compact(into, least=1)
    return done


@dataclass
class _There:
    """What the store holds that is added to.

    Attributes:
        place: the store.
        known: the rounds whose records it holds.
        numbers: their runs, numbers and keys.
        shared: whether files of it may share records.
    """

    place: Location
    known: set[str]
    numbers: set[tuple[str, int, str]]
    shared: bool = False

    @classmethod
    def of(cls, place: Location) -> _There:
        """Looks at a store."""
        held = look(place)
        known = set(held.rounds).union(*(compact.rounds for compact in held.compacts.values()))
        return cls(place, known, round_numbers(known))

    def new(self, rounds: Iterable[str], done: Merged) -> set[str]:
        """The rounds that are not there; counts them all."""
        rounds = set(rounds)
        new = rounds - self.known
        done.rounds += len(new)
        done.known += len(rounds) - len(new)
        return new

    def add(self, rounds: Iterable[str]) -> None:
        """Counts rounds as held."""
        numbers = round_numbers(rounds)
        self.shared |= not self.numbers.isdisjoint(numbers)
        self.numbers |= numbers
        self.known.update(rounds)


def _add_file(
    source: Location, name: str, rounds: frozenset[str], there: _There, done: Merged
) -> None:
    """Copies a file whose rounds are known, if any of them is new."""
    if not rounds <= there.known:
        try:
            there.place.create(name, reading(source, name, _sound, source, name))
        except Damaged as error:
            done.left[name] = error.reason
            return
        except Vanished:
            return
    if there.new(rounds, done):
        there.add(rounds)


def _add_rows(source: Location, name: str, there: _There, done: Merged) -> None:
    """Adds the rows of a file whose name says nothing of them."""
    rows = rows_of_unnamed(source, name, done.left)
    if rows is None:
        return
    new = there.new(round_names(rows), done)
    if new and base(name).startswith("round-"):
        for right, part in by_round(rows):
            there.place.create(right, encode(part))
    elif new:
        rewrite(there.place, parts_of(rows), Compaction())
    there.add(new)


def _add_documents(source: Location, into: Location) -> None:
    for folder in hidden_folders(source):
        kind = folder.removeprefix("_")
        if kind in _OWN:
            continue
        old = OLD_FORMS.get(kind)
        ours, there = Documents(source, kind, old), Documents(into, kind, old)
        for name in set(ours.names()) - set(there.names()):
            content = ours.read(name)
            if content is not None:
                there.keep(name, content)


def _sound(place: Location, name: str) -> bytes:
    """The content of a file of records, if all of it can be read."""
    content = place.read(name)
    with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
        check_schema(file.schema_arrow)
        for index in range(file.metadata.num_row_groups):
            file.read_row_group(index)
    return content
