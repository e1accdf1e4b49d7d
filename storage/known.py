"""Records of the keys that were asked for, as objects, kept for the next question."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from storage.bests import Best, Bests, key_name, shard_of
from storage.documents import Documents
from storage.index import Index, Piece
from storage.keys import Key, of_keys
from storage.plausible import doubt
from storage.schema import from_table
from storage.tables import Unusable, in_parallel
from tilework.record import Record

_MOST_ROWS = 250_000


@dataclass(frozen=True)
class Rules:
    """Which records are used.

    Attributes:
        version: of the sketch rules that a record must be of, see `RecordStore`.
        operations: of a workload, by key, as far as they are known.
    """

    version: int | Callable[[str], int | None] | None
    operations: Callable[[str], float | None]

    def refuse(self, record: Record, flops: float | None) -> str:
        """Why a record, of a workload of so many operations, is not used; empty if it is."""
        asked = self.version
        version = asked(record.target) if callable(asked) else asked
        if version is None and asked is not None:
            return f"not used: of target {record.target}, which this Tilework does not know"
        if version is not None and record.rules_version != version:
            return f"not used: rules version {record.rules_version}, not {version}"
        why = doubt(record, flops)
        return f"not used: {why}" if why else ""


@dataclass
class _Known:
    """What is known of a key.

    Attributes:
        whole: whether `records` are all of them, or those that decide what is best.
        files: the files that are accounted for.
        records: those that may be used, by id.
        refused: how many others there are, by reason.
        flops: operations of the workload; None if the store does not say.
        counted: whether it was asked for them.
    """

    whole: bool
    files: frozenset[str] = frozenset()
    records: dict[str, Record] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    flops: float | None = None
    counted: bool = False


class KnownKeys:
    """The records of keys, read when they are asked for, and again only where files are new."""

    def __init__(self, index: Index, rules: Rules) -> None:
        self.rules = rules
        self._index = index
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._rows = 0
        self._shards: dict[str, dict[str, Best]] = {}

    def all(self, key: Key) -> Iterable[Record]:
        """All records of a key that may be used.

        Raises:
            FileNotFoundError: a file is gone: list again.
            StoreBusy: the store cannot be read now.
        """
        return self._current(key, None).records.values()

    def deciding(self, key: Key, documents: Documents) -> Iterable[Record]:
        """Records of a key with the same `best_of` and `best_elsewhere` as all that may be used.

        Raises:
            FileNotFoundError, StoreBusy: as `all`.
        """
        return self._current(key, Bests(documents)).records.values()

    def forget(self) -> None:
        """Reads everything again that is asked for from now on."""
        self._known.clear()
        self._rows = 0

    def refused(self) -> dict[str, int]:
        """How many records of the keys asked so far are not used, by reason."""
        reasons = (reason for known in self._known.values() for reason in known.refused.values())
        return dict(sorted(Counter(reasons).items()))

    def _current(self, key: Key, bests: Bests | None) -> _Known:
        pieces = self._index.pieces(key)
        known = self._known.pop(key, None)
        self._rows -= len(known.records) if known else 0
        there = frozenset(piece.name for piece in pieces)
        if known is None or not known.files <= there or not (known.whole or bests):
            known = self._from_bests(key, bests, there) if bests else None
        known = known or _Known(whole=True)
        self._read(key, known, [piece for piece in pieces if piece.name not in known.files])
        if known.refused and not known.whole:  # how many there are is to be told
            known = _Known(whole=True)
            self._read(key, known, pieces)
        self._known[key] = known
        self._rows += len(known.records)
        while self._rows > _MOST_ROWS and len(self._known) > 1:
            self._rows -= len(self._known.popitem(last=False)[1].records)
        return known

    def _from_bests(self, key: Key, bests: Bests, there: frozenset[str]) -> _Known | None:
        """What the store's document of bests says of a key, if it can be relied on."""
        name = key_name(key[1], key[0])
        shard = shard_of(name)
        for fresh in (False, True) if shard in self._shards else (True,):
            if fresh:
                self._shards[shard] = bests.shard(shard)
            best = self._shards[shard].get(name)
            new = None if best is None else self._index.uncovered(key, best.covers)
            if best is not None and new is not None:
                known = _Known(whole=False, files=there - {piece.name for piece in new})
                self._add(known, best.records)
                return known
        return None

    def _read(self, key: Key, known: _Known, pieces: list[Piece]) -> None:
        answers = in_parallel(self._index.tables.place, lambda p: self._rows_of(key, p), pieces)
        read = set()
        for piece, rows in zip(pieces, answers, strict=True):
            if isinstance(rows, str):
                self._index.fail(piece.name, rows)
            else:
                self._add(known, rows)
                read.add(piece.name)
        known.files |= read

    def _rows_of(self, key: Key, piece: Piece) -> list[Record] | str:
        try:
            table = self._index.tables.read(piece.name, row_groups=piece.row_groups)
        except Unusable as error:
            return str(error)
        return from_table(of_keys(table, [key]))

    def _add(self, known: _Known, records: Sequence[Record]) -> None:
        """Records of one key."""
        if records and not known.counted:  # once: a missing document costs requests, too
            known.flops, known.counted = self.rules.operations(records[0].workload_key), True
        for record in records:
            reason = self.rules.refuse(record, known.flops)
            if reason:
                known.refused[record.record_id] = reason
            else:
                known.records.setdefault(record.record_id, record)
