"""What stands in which file of a store: from names, footers and a few columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from storage.compacts import Key, key_ranges, replaces
from storage.listing import Changes
from storage.names import RoundName, is_compact, key_part, run_part
from storage.tables import Tables, Unusable, in_parallel

KEY_COLUMNS = ("target", "workload_key")
_WHOLE_ROUNDS = "round-"
_SMALL_ROWS = 200_000


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
class _Compact:
    """A compacted file that is present.

    Attributes:
        ranges: first and last key of each row group.
        replaces: base names of the files whose rows it holds.
        leaves: of these the rounds, by key part; None if other files are among them.
        keys: of its rows; None if nobody asked yet.
        numbers: run part and number of each round; None if nobody asked yet.
    """

    ranges: list[tuple[Key, Key]]
    replaces: frozenset[str]
    leaves: dict[str, set[str]] | None
    keys: frozenset[Key] | None = None
    numbers: frozenset[tuple[str, int]] | None = None

    def groups(self, key: Key, part: str) -> tuple[int, ...]:
        """The row groups in which rows of a key may stand."""
        if self.leaves is not None and part not in self.leaves:
            return ()
        return tuple(i for i, (low, high) in enumerate(self.ranges) if low <= key <= high)


@dataclass
class _Other:
    """A file whose name says nothing: from other tools, or of an older version.

    Attributes:
        keys: of its rows.
        rounds: the rounds that it holds, as run part and number, if it is a file of whole rounds.
        table: its rows, if it is small and holds many keys.
    """

    keys: frozenset[Key]
    rounds: frozenset[tuple[str, int]] = frozenset()
    table: pa.Table | None = None


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
    _compacts: dict[str, _Compact] = field(default_factory=dict)
    _others: dict[str, _Other] = field(default_factory=dict)
    _others_of: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unread: set[str] = field(default_factory=set)
    _replaced: frozenset[str] = frozenset()
    _key_of: dict[str, Key] = field(default_factory=dict)

    def update(self, changes: Changes) -> None:
        """Counts files in and out, by their names alone."""
        for name in changes.removed:
            self._forget(name)
        for name in changes.added:
            found = RoundName.parse(name)
            if found is None:
                self._unread.add(name)
            else:
                self._rounds[found.key].add(name)
                self._numbers[found.run, found.round].add(name)

    def load(self) -> None:
        """Reads the footers of new compacted files, and the keys of files of other names.

        Raises:
            FileNotFoundError: a file is gone: list again.
            StoreBusy: the store cannot be read now.
        """
        if not self._unread:
            return
        names = sorted(self._unread)
        for name, found in zip(names, self._read_all(names), strict=True):
            self._unread.discard(name)
            if isinstance(found, _Compact):
                self._compacts[name] = found
            elif isinstance(found, _Other):
                self._enter(name, found)
            else:
                self.bad[name] = found
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
        found = [Piece(name) for name in self._live(self._rounds.get(part, ()))]
        for name in self._live(self._compacts):
            groups = self._compacts[name].groups(key, part)
            if groups:
                found.append(Piece(name, groups))
        found += [Piece(name) for name in self._live(self._others_of.get(key, ()))]
        return sorted(found, key=lambda piece: piece.name)

    def uncovered(self, key: Key, covers: frozenset[str]) -> list[Piece] | None:
        """Of `pieces`, those that hold more of a key than the rounds named in ``covers``.

        None if a covered round is gone: then what is known of it must not be used.
        """
        part = key_part(key[1], key[0])
        there = {_base(name) for name in self._live(self._rounds.get(part, ()))}
        held = {name: self._leaves(name, part) for name in self._live(self._compacts)}
        if not covers <= there.union(*(leaves or () for leaves in held.values())):
            return None

        def known(name: str) -> bool:
            leaves = held.get(name, {_base(name)})
            return leaves is not None and leaves <= covers

        return [piece for piece in self.pieces(key) if not known(piece.name)]

    def has_round(self, run_id: str, round: int) -> bool:
        """Whether records of this round of this run are there, in whichever file."""
        number = (run_part(run_id), round)
        if any(name not in self.bad for name in self._numbers.get(number, ())):
            return True
        if any(number in self._others[name].rounds for name in self._live(self._others)):
            return True
        return any(number in self._replaced_rounds(name) for name in self._live(self._compacts))

    def parts_of_round(self, run_id: str, round: int) -> set[str]:
        """The key parts of the records of a round, as far as names of files say them."""
        number = (run_part(run_id), round)
        names = [RoundName.parse(name) for name in self._numbers.get(number, ())]
        for name in self._live(self._compacts):
            if number in self._replaced_rounds(name):
                names += map(RoundName.parse, self._compacts[name].replaces)
        return {found.key for found in names if found and (found.run, found.round) == number}

    def keys(self) -> list[Key]:
        """The keys of all rows, sorted; of two that share a `key_part` one may be missing.

        Raises:
            FileNotFoundError, StoreBusy: as `load`.
        """
        found = {key for name in self.shared_files() for key in self.keys_of(name)}
        self._key_of.update({key_part(key[1], key[0]): key for key in found})
        while True:
            parts = self.round_parts()
            unknown = [names[0] for part, names in parts.items() if part not in self._key_of]
            if not unknown:
                return sorted(found | {self._key_of[part] for part in parts})
            for name, key in zip(unknown, self._first_keys(unknown), strict=True):
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
        found = (compact.groups(key, key_part(key[1], key[0])) for key in keys)
        return sorted({group for groups in found for group in groups})

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
        return sorted(n for n in names if n not in bad and not (gone and _base(n) in gone))

    def _there(self, name: str) -> _Compact:
        if name not in self._compacts:
            raise FileNotFoundError(name)
        return self._compacts[name]

    def _leaves(self, compact: str, part: str) -> set[str] | None:
        leaves = self._compacts[compact].leaves
        return None if leaves is None else leaves.get(part, set())

    def _replaced_rounds(self, name: str) -> frozenset[tuple[str, int]]:
        compact = self._compacts[name]
        if compact.numbers is None:
            parsed = map(RoundName.parse, compact.replaces)
            compact.numbers = frozenset((found.run, found.round) for found in parsed if found)
        return compact.numbers

    def _enter(self, name: str, other: _Other) -> None:
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
        found = RoundName.parse(name)
        if found is not None:
            self._rounds[found.key].discard(name)
            if not self._rounds[found.key]:
                del self._rounds[found.key]
            self._numbers[found.run, found.round].discard(name)
        self._unread.discard(name)
        other = self._others.pop(name, None)
        for key in other.keys if other else ():
            self._others_of[key].discard(name)
        self.bad.pop(name, None)
        self.tables.forget(name)
        if self._compacts.pop(name, None) is not None:
            self._count_replaced()

    def _read_all(self, names: list[str]) -> list[_Compact | _Other | str]:
        return in_parallel(self.tables.place, self._read, names)

    def _read(self, name: str) -> _Compact | _Other | str:
        try:
            return self._compact(name) if is_compact(name) else self._other(name)
        except Unusable as error:
            return str(error)

    def _compact(self, name: str) -> _Compact:
        footer = self.tables.footer(name)
        try:
            replaced = frozenset(map(_base, replaces(footer)))
        except ValueError as error:
            raise Unusable(str(error)) from None
        leaves: dict[str, set[str]] | None = defaultdict(set)
        for leaf in replaced:
            found = RoundName.parse(leaf)
            if found is not None and leaves is not None:
                leaves[found.key].add(leaf)
            elif found is None and not is_compact(leaf):
                leaves = None
        return _Compact(key_ranges(footer), replaced, leaves)

    def _other(self, name: str) -> _Other:
        if _base(name).startswith(_WHOLE_ROUNDS):
            table = self.tables.read(name, (*KEY_COLUMNS, "run_id", "round"))
            pairs = table.group_by(["run_id", "round"]).aggregate([]).to_pylist()
            rounds = frozenset((run_part(pair["run_id"]), pair["round"]) for pair in pairs)
            return _Other(keys_in(table), rounds)
        if self.tables.footer(name).num_rows > _SMALL_ROWS:
            return _Other(keys_in(self.tables.read(name, KEY_COLUMNS)))
        table = self.tables.read(name)
        return _Other(keys_in(table), table=table)

    def _first_keys(self, names: list[str]) -> list[Key | str]:
        """The key of each round, or why it cannot be read."""

        def first(name: str) -> Key | str:
            try:
                rows = self.tables.read(name, KEY_COLUMNS)
            except Unusable as error:
                return str(error)
            return next(iter(keys_in(rows.slice(0, 1))), "it has no rows")

        return in_parallel(self.tables.place, first, names)


def of_keys(table: pa.Table, keys: Iterable[Key]) -> pa.Table:
    """The rows of these keys."""
    wanted = set(keys)
    targets = pa.array(sorted({target for target, _ in wanted}), pa.string())
    workloads = pa.array(sorted({workload for _, workload in wanted}), pa.string())
    may = pc.and_(
        pc.is_in(table.column("target"), targets),
        pc.is_in(table.column("workload_key"), workloads),
    )
    table = table.filter(may)
    if len(targets) == 1 or len(workloads) == 1:
        return table
    pairs = zip(
        table.column("target").to_pylist(), table.column("workload_key").to_pylist(), strict=True
    )
    return table.filter(pa.array([pair in wanted for pair in pairs], pa.bool_()))


def keys_in(table: pa.Table) -> frozenset[Key]:
    """The keys of the rows."""
    pairs = table.group_by(list(KEY_COLUMNS)).aggregate([]).to_pydict()
    return frozenset(zip(pairs["target"], pairs["workload_key"], strict=True))


def _base(name: str) -> str:
    return name.rpartition("/")[2]
