"""Bests of a store: documents that queries read first, and stores of nothing else."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from storage.bests import KIND, Best, Bests, deciding, key_name, shard_of
from storage.compacts import split_keys
from storage.documents import Documents
from storage.files import Location
from storage.keys import Key
from storage.maintenance.holdings import Damaged, Holdings, Vanished, look
from storage.maintenance.rows import (
    Part,
    compact_parts,
    in_batches,
    merge_parts,
    round_parts,
    sort_rounds,
)
from storage.names import RoundName, key_part
from storage.schema import SCHEMA
from tilework.errors import StoreBusy

_TRIES = 5


@dataclass
class Distillation:
    """What distilling a store's bests did.

    Attributes:
        keys: keys whose new rows were looked at.
        rows: how many rows these had.
        left: files that could not be read, with the reason.
        seconds: how long it took.
    """

    keys: int = 0
    rows: int = 0
    left: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class _Stale:
    """What has to be read.

    Attributes:
        covers: by `key_part`, the rounds that its bests cover, and those in ``compacts``.
        rounds: names of rounds to read.
        compacts: names of compacted files to read.
        known: by `key_name`, bests that stay true and need the new rows only.
    """

    covers: dict[str, frozenset[str]]
    rounds: list[str]
    compacts: set[str]
    known: dict[str, Best]


def distill(place: Location, keys: Iterable[tuple[str, str]] | None = None) -> Distillation:
    """Brings the bests of a store up to date; only what they do not cover is read.

    Args:
        keys: workload keys and targets; all of the store if None.

    Raises:
        StoreError: the store cannot be read or written.
    """
    begun = time.monotonic()
    asked = None if keys is None else {(target, workload) for workload, target in keys}
    done = Distillation()
    collected = _patiently(place, asked, done)
    shards: dict[str, dict[str, Best]] = {shard_of(name): {} for name in collected.changed}
    for name, best in collected.all().items():
        if shard_of(name) in shards:
            shards[shard_of(name)][name] = best
    bests = Bests(Documents(place, KIND))
    for shard, mine in sorted(shards.items()):
        bests.keep(shard, mine)
    done.seconds = time.monotonic() - begun
    return done


def deciding_rows(place: Location) -> pa.Table:
    """The records of a store's rounds that can decide what is best. Nothing is written.

    Raises:
        StoreError: the store cannot be read.
    """
    bests = _patiently(place, None, Distillation()).all()
    return pa.concat_tables([SCHEMA.empty_table(), *(best.rows for best in bests.values())])


@dataclass(frozen=True)
class _Bests:
    """Bests by `key_name`.

    Attributes:
        kept: those that documents hold, and whose rounds are not all gone.
        changed: those that are newer.
    """

    kept: dict[str, Best]
    changed: dict[str, Best]

    def all(self) -> dict[str, Best]:
        """What is known now."""
        return {**self.kept, **self.changed}


def _patiently(place: Location, asked: set[Key] | None, done: Distillation) -> _Bests:
    """Looks again if a file is compacted between the listing and the reading, or is damaged."""
    tries = 0
    while tries < _TRIES:
        try:
            return _find(place, asked, done)
        except Vanished:
            tries += 1
        except Damaged as error:
            done.left[error.name] = error.reason
        done.keys, done.rows = 0, 0
    raise StoreBusy(f"the record store {place.text!r} changes too fast to be distilled: try later")


def _find(place: Location, asked: set[Key] | None, done: Distillation) -> _Bests:
    bests = Bests(Documents(place, KIND))
    held = look(place)
    done.left.update(held.damaged)
    rounds, compacts = _by_part(held, without=done.left)
    wanted = rounds.keys() if asked is None else {key_part(w, t) for t, w in asked} & rounds.keys()
    shards = {shard: bests.shard(shard) for shard in {shard_of(part) for part in wanted}}
    stale = _stale({part: rounds[part] for part in wanted}, compacts, shards)
    kept = {
        name: best
        for shard in shards.values()
        for name, best in shard.items()
        if name[:8] in rounds and best.covers <= rounds[name[:8]]
    }
    return _Bests(kept, dict(_decide(place, stale, asked, done)))


def _stale(
    rounds: dict[str, set[str]],
    compacts: dict[str, dict[str, str]],
    shards: dict[str, dict[str, Best]],
) -> _Stale:
    stale = _Stale({}, [], set(), {})
    for part, names in rounds.items():
        mine = {n: b for n, b in shards[shard_of(part)].items() if n.startswith(part)}
        covered = frozenset.intersection(*(b.covers for b in mine.values())) if mine else None
        if covered is not None and covered == names:
            continue
        if covered is None or not covered <= names:  # what they were made of is gone
            mine, covered = {}, frozenset()
        stale.known.update(mine)
        held = compacts.get(part, {})
        new = names - covered
        stale.rounds.extend(sorted(new - held.keys()))
        read = {held[name] for name in new & held.keys()}
        stale.compacts.update(read)
        stale.covers[part] = covered | {name for name, where in held.items() if where in read}
    return stale


def _by_part(
    held: Holdings, without: Collection[str]
) -> tuple[dict[str, set[str]], dict[str, dict[str, str]]]:
    """By `key_part`: the names of its rounds, and the compacted file that holds a round."""
    rounds: dict[str, set[str]] = defaultdict(set)
    compacts: dict[str, dict[str, str]] = defaultdict(dict)
    sound = [file for file in held.compacts.values() if file.name not in without]
    where = [(name, file.name) for file in sound for name in file.rounds]
    for name, compact in [*((name, "") for name in held.rounds), *where]:
        parsed = RoundName.parse(name)
        if parsed is not None:
            rounds[parsed.key].add(name)
            if compact:
                compacts[parsed.key][name] = compact
    return rounds, compacts


def _decide(
    place: Location, stale: _Stale, asked: set[Key] | None, done: Distillation
) -> Iterator[tuple[str, Best]]:
    """The bests of the keys that are stale, with their `key_name`."""
    for batch in in_batches(_stream(place, stale, asked, done.left), lambda p: len(p.rows)):
        done.keys += len(batch)
        done.rows += sum(len(part.rows) for part in batch)
        names = [key_name(part.key[1], part.key[0]) for part in batch]
        known = [stale.known[name].rows for name in names if name in stale.known]
        decided = deciding(pa.concat_tables([*known, *(part.rows for part in batch)]))
        rows = {key_name(key[1], key[0]): kept for key, kept in split_keys(decided)}
        for name, part in zip(names, batch, strict=True):
            kept = rows.get(name, SCHEMA.empty_table())
            yield name, Best(kept, stale.covers[name[:8]] | frozenset(part.rounds))


def _stream(
    place: Location, stale: _Stale, asked: set[Key] | None, unread: dict[str, str]
) -> Iterator[Part]:
    rounds = sort_rounds(place, stale.rounds)
    unread.update(rounds.problems)
    streams = [round_parts(place, rounds, unread, _nothing)]
    streams += [compact_parts(place, name, _nothing, asked) for name in sorted(stale.compacts)]
    for part in merge_parts(streams):
        wanted = key_part(part.key[1], part.key[0]) in stale.covers
        if wanted and (asked is None or part.key in asked):
            yield part


def _nothing() -> None:
    """No claim is held that would have to be kept."""
