"""What stands in which file of a store: from names, footers and a few columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from storage.contents import Compacted, Other, base, first_key, read_contents
from storage.keys import KEY_COLUMNS, Key, keys_in
from storage.listing import Changes
from storage.names import RoundName, key_part, run_part
from storage.tables import Tables, Unusable, in_parallel


@dataclass(frozen=True)
class Piece:
    """A file, or a part of one, in which rows of a key stand.

    Attributes:
        name: the file.
        row_groups: of which its rows can be; None: any.
    """

    name: str
    row_groups: tuple[int, ...] | None = None


@dataclass
class Index:
    """The files of a store by the keys of their rows. A key is a target and a workload's key.

    Files that a compacted file replaces, and that are still there, count as gone.

    Attributes:
        bad: why a file that is there is not used, by name.
    """

    tables: Tables
    bad: dict[str, str] = field(default_factory=dict)
    _rounds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _numbers: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    _compacts: dict[str, Compacted] = field(default_factory=dict)
    _others: dict[str, Other] = field(default_factory=dict)
    _others_of: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unread: set[str] = field(default_factory=set)
    _replaced: frozenset[str] = frozenset()
    _key_of: dict[str, Key] = field(default_factory=dict)

    def update(self, changes: Changes) -> None:
        """Counts files in and out, by their names alone."""
        for name in changes.removed:
            self._forget(name)
        for name in changes.added:
            parsed = RoundName.parse(name)
            if parsed is None:
                self._unread.add(name)
            else:
                self._rounds[parsed.key].add(name)
                self._numbers[parsed.run, parsed.round].add(name)

    def load(self) -> None:
        """Reads the footers of new compacted files, and the keys of files of other names.

        Raises:
            FileNotFoundError: a file is gone: list again.
            StoreBusy: the store cannot be read now.
        """
        if not self._unread:
            return
        names = sorted(self._unread)
        all_contents = in_parallel(self.tables.place, partial(read_contents, self.tables), names)
        for name, contents in zip(names, all_contents, strict=True):
            self._unread.discard(name)
            if isinstance(contents, Compacted):
                self._compacts[name] = contents
            elif isinstance(contents, Other):
                self._enter(name, contents)
            else:
                self.bad[name] = contents
        self._count_replaced()

    def fail(self, name: str, reason: str) -> None:
        """Uses a file no longer, because its rows cannot be read.

        Raises:
            FileNotFoundError: it was a compacted file: ask again, because files that it replaced,
                and that are there still, count now.
        """
        self.bad[name] = reason
        if name in self._compacts:
            self._count_replaced()
            raise FileNotFoundError(name)

    def mend(self, name: str) -> None:
        """Uses a file again, which was written anew."""
        self.bad.pop(name, None)
        self.tables.forget(name)

    def pieces(self, key: Key) -> list[Piece]:
        """Where the rows of a key stand, by name."""
        part = key_part(key[1], key[0])
        pieces = [Piece(name) for name in self._live(self._rounds.get(part, ()))]
        for name in self._live(self._compacts):
            groups = self._compacts[name].groups(key, part)
            if groups:
                pieces.append(Piece(name, groups))
        pieces += [Piece(name) for name in self._live(self._others_of.get(key, ()))]
        return sorted(pieces, key=lambda piece: piece.name)

    def uncovered(self, key: Key, covers: frozenset[str]) -> list[Piece] | None:
        """Of `pieces`, those that hold more of a key than the rounds named in ``covers``.

        None if a covered round is gone: then what is known of it must not be used.
        """
        part = key_part(key[1], key[0])
        there = {base(name) for name in self._live(self._rounds.get(part, ()))}
        held = {name: self._compacts[name].rounds_of(part) for name in self._live(self._compacts)}
        if not covers <= there.union(*(rounds or () for rounds in held.values())):
            return None

        def known(name: str) -> bool:
            rounds = held.get(name, {base(name)})
            return rounds is not None and rounds <= covers

        return [piece for piece in self.pieces(key) if not known(piece.name)]

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether records of this round of this run are there, in whichever file."""
        number = (run_part(run_id), round)
        if any(name not in self.bad for name in self._numbers.get(number, ())):
            return True
        if any(number in self._others[name].rounds for name in self._live(self._others)):
            return True
        return any(number in self._compacts[name].numbers for name in self._live(self._compacts))

    def parts_of_round(self, run_id: str, round: int) -> set[str]:
        """The key parts of the records of a round, as far as names of files say them."""
        number = (run_part(run_id), round)
        names = [RoundName.parse(name) for name in self._numbers.get(number, ())]
        for name in self._live(self._compacts):
            if number in self._compacts[name].numbers:
                names += map(RoundName.parse, self._compacts[name].replaces)
        return {parsed.key for parsed in names if parsed and (parsed.run, parsed.round) == number}

    def keys(self) -> list[Key]:
        """The keys of all rows, sorted; of two that share a `key_part` one may be missing.

        Raises:
            FileNotFoundError, StoreBusy: as `load`.
        """
        shared = {key for name in self.shared_files() for key in self.keys_of(name)}
        self._key_of.update({key_part(key[1], key[0]): key for key in shared})
        while True:
            parts = self.round_parts()
            unknown = [names[0] for part, names in parts.items() if part not in self._key_of]
            if not unknown:
                return sorted(shared | {self._key_of[part] for part in parts})
            keys = in_parallel(self.tables.place, partial(first_key, self.tables), unknown)
            for name, key in zip(unknown, keys, strict=True):
                if isinstance(key, str):
                    self.fail(name, key)
                else:
                    self._key_of[key_part(key[1], key[0])] = key

    def shared_files(self) -> list[str]:
        """The files of many keys that count: compacted ones, then others; each sorted."""
        return self._live(self._compacts) + self._live(self._others)

    def groups(self, name: str, keys: Iterable[Key]) -> list[int] | None:
        """The row groups of a compacted file in which rows of these keys may stand; else None."""
        if name in self._others:
            return None
        compact = self._there(name)
        each = (compact.groups(key, key_part(key[1], key[0])) for key in keys)
        return sorted({group for groups in each for group in groups})

    def keys_of(self, name: str) -> frozenset[Key]:
        """The keys of the rows of a file of many keys.

        Raises:
            FileNotFoundError: it is gone.
        """
        if name in self._others:
            return self._others[name].keys
        compact = self._there(name)
        if compact.keys is None:
            try:
                compact.keys = keys_in(self.tables.distinct(name, KEY_COLUMNS))
            except Unusable as error:
                self.fail(name, str(error))
                return frozenset()
        return compact.keys

    def round_parts(self) -> dict[str, list[str]]:
        """The rounds that count, by key part."""
        return {p: live for p, names in self._rounds.items() if (live := self._live(names))}

    def ranges(self, name: str) -> list[tuple[Key, Key]]:
        """The first and the last key of each row group of a compacted file."""
        return self._there(name).ranges

    def _live(self, names: Iterable[str]) -> list[str]:
        bad, gone = self.bad, self._replaced
        return sorted(n for n in names if n not in bad and not (gone and base(n) in gone))

    def _there(self, name: str) -> Compacted:
        if name not in self._compacts:
            raise FileNotFoundError(name)
        return self._compacts[name]

    def _enter(self, name: str, other: Other) -> None:
        if other.table is not None:
            self.tables.keep(name, other.table)
            other.table = None
        self._others[name] = other
        for key in other.keys:
            self._others_of[key].add(name)

    def _count_replaced(self) -> None:
        present = (self._compacts[name] for name in self._compacts if name not in self.bad)
        self._replaced = frozenset().union(*(compact.replaces for compact in present))

    def _forget(self, name: str) -> None:
        parsed = RoundName.parse(name)
        if parsed is not None:
            self._rounds[parsed.key].discard(name)
            if not self._rounds[parsed.key]:
                del self._rounds[parsed.key]
            self._numbers[parsed.run, parsed.round].discard(name)
        self._unread.discard(name)
        other = self._others.pop(name, None)
        for key in other.keys if other else ():
            self._others_of[key].discard(name)
        self.bad.pop(name, None)
        self.tables.forget(name)
        if self._compacts.pop(name, None) is not None:
            self._count_replaced()
