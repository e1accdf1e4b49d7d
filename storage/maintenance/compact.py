"""Many files of rounds become few compacted ones, while others read and write.

A compacted file is written whole, read back, and only then are the files that it replaces removed.
Killed in between, both stand there: the footer says which are replaced, readers pass over them and
the next compaction removes them. A round that is written meanwhile is left for the next one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from storage import tables
from storage.compacts import Compact, CompactWriter, verify
from storage.files import Location
from storage.maintenance.claim import claim
from storage.maintenance.holdings import (
    CompactFile,
    Damaged,
    Holdings,
    Vanished,
    base,
    files,
    look,
    open_file,
    reading,
)
from storage.maintenance.rows import (
    Part,
    Rounds,
    compact_parts,
    merge_parts,
    parts_of,
    round_names,
    round_parts,
    rows_of_unnamed,
    sort_rounds,
)
from storage.names import RoundName
from storage.upgrade import upgrade
from tilework.errors import StoreError

ROWS_A_FILE = 500_000
"""A compacted file is closed when it has so many rows; those near to it are merged no more."""
LEAST_ROUNDS = 16
"""Fewer rounds than this are left as they are."""
_SAME_SIZE = 4
"""So many compacted files of similar size are merged into one."""
_SMALL = 1000

Beat = Callable[[], None]


@dataclass
class Compaction:
    """What a compaction did.

    Attributes:
        rounds: files of rounds that were compacted.
        made: compacted files that were written and still count.
        rows: rows of these.
        removed: the files that were removed.
        left: files that are left as they are, with the reason.
        seconds: how long it took.
    """

    rounds: int = 0
    made: list[str] = field(default_factory=list)
    rows: int = 0
    removed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def compact(
    place: Location, *, rows_a_file: int = ROWS_A_FILE, least: int = LEAST_ROUNDS
) -> Compaction:
    """Compacts the rounds of a store, and merges compacted files that are small or overlap.

    Others may append, read and distill meanwhile.

    Raises:
        Claimed: another process compacts or repairs the store.
        StoreError: the store cannot be read or written; what was done so far stays.
    """
    begun = time.monotonic()
    done = Compaction()
    with claim(place) as beat:
        compact_claimed(place, done, beat, rows_a_file, least)
    done.seconds = time.monotonic() - begun
    return done


def compact_claimed(
    place: Location,
    done: Compaction,
    beat: Beat,
    rows_a_file: int = ROWS_A_FILE,
    least: int = LEAST_ROUNDS,
) -> None:
    """`compact`, by who holds the claim."""
    held = finish(place, look(place), done)
    done.left.update(held.damaged)
    if upgrade(place, held.names):
        held = look(place)
    for name in held.others:
        absorb(place, name, done)
    if len(held.rounds) >= least:
        rounds = sort_rounds(place, held.rounds)
        done.left.update(rounds.problems)
        fold(place, rounds, [], done, beat, rows_a_file)
    while group := _to_merge(done, look(place), rows_a_file):
        try:
            fold(place, Rounds([], {}), group, done, beat, math.inf)
        except Damaged as error:
            done.left[error.name] = error.reason
        except Vanished:
            continue


def finish(place: Location, held: Holdings, done: Compaction) -> Holdings:
    """Removes the replaced files that a killed compaction left, once their successor is proven.

    Returns:
        What the store holds now.
    """
    if not held.replaced:
        return held
    for compact in held.compacts.values():
        mine = [n for n in held.replaced if base(n) in compact.replaces]
        if not mine:
            continue
        try:
            with open_file(place, compact.name) as file:
                reading(place, compact.name, verify, file)
        except Damaged as error:
            done.left[compact.name] = error.reason
        except Vanished:
            continue
        else:
            _remove(place, mine, done)
    return look(place)


def fold(
    place: Location,
    rounds: Rounds,
    compacts: Iterable[CompactFile],
    done: Compaction,
    beat: Beat,
    rows_a_file: float,
) -> None:
    """Writes the rows of some files into compacted ones, and removes those files.

    Several compacted files are made only of rounds: with ``compacts``, ``rows_a_file`` is
    infinite, so that one file replaces what it was made of.

    Raises:
        Damaged, Vanished: one of ``compacts`` cannot be read; nothing was written.
        StoreError: the store cannot be read or written now.
    """
    sources = list(compacts)
    inherited = frozenset[str]().union(*({c.name} | c.replaces for c in sources))
    streams = [round_parts(place, rounds, done.left, beat)]
    streams += [compact_parts(place, source.name, beat) for source in sources]
    named = ((part, part.rounds) for part in merge_parts(streams))
    _write(place, named, inherited, done, rows_a_file)


def absorb(place: Location, name: str, done: Compaction) -> None:
    """Compacts a file whose name says nothing of its rows: of older versions, or merged.

    Such names may be used again for other rows, so that no footer names them: the file is removed
    when its rows stand elsewhere.

    Raises:
        StoreError: the store cannot be read or written now.
    """
    rows = rows_of_unnamed(place, name, done.left)
    if rows is None:
        return
    held = look(place)
    known = {base(n) for n in (*held.rounds, *held.replaced)}.union(
        *(compact.rounds for compact in held.compacts.values())
    )
    if len(rows) and not round_names(rows) <= known:
        rewrite(place, parts_of(rows), done)
    _remove(place, [name], done)


def rewrite(place: Location, parts: Iterable[Part], done: Compaction) -> None:
    """Writes rows, wherever they are from, sorted by key and each key once, as compacted files.

    Raises:
        StoreError: the store cannot be written.
    """
    _write(place, ((part, round_names(part.rows)) for part in parts), (), done, ROWS_A_FILE)


def _write(
    place: Location,
    parts: Iterable[tuple[Part, Iterable[str]]],
    inherited: Iterable[str],
    done: Compaction,
    rows_a_file: float,
) -> None:
    writer, names = CompactWriter(), set(inherited)
    for part, rounds in parts:
        writer.add(part.rows)
        names.update(rounds)
        done.rounds += len(part.rounds)
        if writer.rows >= rows_a_file:
            _publish(place, writer.close(names), names, done)
            writer, names = CompactWriter(), set()
    if writer.rows:
        _publish(place, writer.close(names), names, done)


def _publish(
    place: Location, compact: Compact, replaced: Collection[str], done: Compaction
) -> None:
    """Writes a compacted file, reads it back, and removes what it replaces."""
    place.create(compact.name, memoryview(compact.content))
    try:
        with open_file(place, compact.name) as file:
            reading(place, compact.name, verify, file, compact.digest)
    except Damaged as error:
        place.remove(compact.name)
        raise StoreError(
            f"the compacted file {compact.name!r} of the record store {place.text!r} was not "
            f"written as it should be ({error.reason}); the records are as they were: check the "
            "disk"
        ) from error
    except Vanished:
        return  # somebody merged it already, and removes what it replaces
    done.made.append(compact.name)
    done.rows += compact.rows
    _remove(place, [name for name in files(place) if base(name) in replaced], done)


def _remove(place: Location, names: Iterable[str], done: Compaction) -> None:
    gone = list(names)
    tables.in_parallel(place, place.remove, gone)
    done.removed += gone
    done.made = [name for name in done.made if name not in gone]


def _to_merge(done: Compaction, held: Holdings, rows_a_file: float) -> list[CompactFile]:
    """The next compacted files to merge: some that hold the same rounds, or many small ones."""
    sound = [compact for compact in held.compacts.values() if compact.name not in done.left]
    seen: dict[object, CompactFile] = {}
    for compact in sorted(sound, key=lambda c: c.name):
        for number in round_numbers(compact.rounds):
            other = seen.setdefault(number, compact)
            if other is not compact:
                return [other, compact]
    levels: dict[int, list[CompactFile]] = {}
    for compact in sound:
        if compact.rows < rows_a_file / 2:
            level = int(math.log(max(compact.rows, _SMALL) / _SMALL, _SAME_SIZE))
            levels.setdefault(level, []).append(compact)
    for level in sorted(levels):
        if len(levels[level]) >= _SAME_SIZE:
            return levels[level]
    return []


def round_numbers(rounds: Iterable[str]) -> set[tuple[str, int, str]]:
    """Run, number and key of rounds: files that have one in common may share records.

    They need not: two machines may work on the same run. A part of a round has another name than
    the whole, so that names alone do not tell.
    """
    parsed = (RoundName.parse(name) for name in rounds)
    return {(one.run, one.round, one.key) for one in parsed if one}
