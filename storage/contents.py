"""What a file of a store holds that its name does not say: read from footers and a few columns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from storage.compacts import key_ranges, replaces
from storage.keys import KEY_COLUMNS, Key, keys_in
from storage.names import RoundName, is_compact, run_part
from storage.tables import Tables, Unusable

_WHOLE_ROUNDS = "round-"
_SMALL_ROWS = 200_000


@dataclass
class Compacted:
    """A compacted file that is present.

    Attributes:
        ranges: first and last key of each row group.
        replaces: base names of the files whose rows it holds.
        rounds: of these the rounds, by key part; None if other files are among them.
        keys: of its rows; None if nobody asked yet.
    """

    ranges: list[tuple[Key, Key]]
    replaces: frozenset[str]
    rounds: dict[str, set[str]] | None
    keys: frozenset[Key] | None = None

    @cached_property
    def numbers(self) -> frozenset[tuple[str, int]]:
        """Run part and number of each round."""
        parsed = map(RoundName.parse, self.replaces)
        return frozenset((round.run, round.round) for round in parsed if round)

    def groups(self, key: Key, part: str) -> tuple[int, ...]:
        """The row groups in which rows of a key may stand."""
        if self.rounds is not None and part not in self.rounds:
            return ()
        return tuple(i for i, (low, high) in enumerate(self.ranges) if low <= key <= high)

    def rounds_of(self, part: str) -> set[str] | None:
        """The rounds of a key part whose rows it holds; None if it may hold more of it."""
        return None if self.rounds is None else self.rounds.get(part, set())


@dataclass
class Other:
    """A file whose name says nothing: from other tools, or of an older version.

    Attributes:
        keys: of its rows.
        rounds: the rounds that it holds, as run part and number, if it is a file of whole rounds.
        table: its rows, if it is small and holds many keys.
    """

    keys: frozenset[Key]
    rounds: frozenset[tuple[str, int]] = frozenset()
    table: pa.Table | None = None


def read_contents(tables: Tables, name: str) -> Compacted | Other | str:
    """What a file that is no round's holds, or why it cannot be read."""
    try:
        return _compacted(tables, name) if is_compact(name) else _other(tables, name)
    except Unusable as error:
        return str(error)


def first_key(tables: Tables, name: str) -> Key | str:
    """The key of a round, or why it cannot be read."""
    try:
        rows = tables.read(name, KEY_COLUMNS)
    except Unusable as error:
        return str(error)
    return next(iter(keys_in(rows.slice(0, 1))), "it has no rows")


def base(name: str) -> str:
    """A file's name without its directories."""
    return name.rpartition("/")[2]


def _compacted(tables: Tables, name: str) -> Compacted:
    footer = tables.footer(name)
    try:
        replaced = frozenset(map(base, replaces(footer)))
    except ValueError as error:
        raise Unusable(str(error)) from None
    rounds: dict[str, set[str]] = defaultdict(set)
    others = False
    for file in replaced:
        round = RoundName.parse(file)
        if round is not None:
            rounds[round.key].add(file)
        elif not is_compact(file):
            others = True
    return Compacted(key_ranges(footer), replaced, None if others else rounds)


def _other(tables: Tables, name: str) -> Other:
    if base(name).startswith(_WHOLE_ROUNDS):
        table = tables.read(name, (*KEY_COLUMNS, "run_id", "round"))
        pairs = table.group_by(["run_id", "round"]).aggregate([]).to_pylist()
        rounds = frozenset((run_part(pair["run_id"]), pair["round"]) for pair in pairs)
        return Other(keys_in(table), rounds)
    if tables.footer(name).num_rows > _SMALL_ROWS:
        return Other(keys_in(tables.read(name, KEY_COLUMNS)))
    table = tables.read(name)
    return Other(keys_in(table), table=table)
