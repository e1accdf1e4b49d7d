"""The log of champions: which learned model a kind of machine uses, and what it used before."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from datetime import UTC, datetime

from storage.cards import Action, Move, read_move
from storage.documents import Documents

MOVES = "moves"
"""Kind of the documents."""

_NAME = re.compile(r"([a-z][a-z0-9_]*)-(\d{6})-[0-9a-f]{8}")


class Moves:
    """The moves of one store. Each is a document that is never changed.

    Args:
        documents: the store's documents of the kind `MOVES`.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    @property
    def problems(self) -> list[str]:
        """One line for each move that was asked for and cannot be read."""
        return self._documents.problems

    def kinds(self) -> set[str]:
        """The kinds of machine that there are moves of."""
        return {match[1] for name in self._documents.names() if (match := _NAME.fullmatch(name))}

    def of(self, kind: str) -> list[Move]:
        """All moves of a kind, in the order in which they count; unreadable ones are left out."""
        moves = []
        for name in self._documents.names():
            match = _NAME.fullmatch(name)
            if match is None or match[1] != kind:
                continue
            content = self._documents.read(name)
            move = read_move(content) if content is not None else None
            if move is not None and (move.kind, move.number) == (kind, int(match[2])):
                moves.append((move.number, move.at, name, move))
        return [move for *_, move in sorted(moves, key=lambda one: one[:3])]

    def ever(self, kind: str) -> set[str]:
        """The names of all models that were champions of a kind."""
        return {name for move in self.of(kind) for name in (move.name, move.before)}

    def add(self, kind: str, action: Action, name: str, by: str, reason: str) -> Move:
        """Makes a model the champion of a kind, or none if the name is empty.

        Raises:
            StoreError: the store cannot be written.
        """
        moves = self.of(kind)
        number = moves[-1].number + 1 if moves else 1
        before = moves[-1].name if moves else ""
        now = datetime.now(UTC)
        move = Move(kind, number, action, name, before, now, by, " ".join(reason.split()))
        text = json.dumps(asdict(move), default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        self._documents.claim(f"{kind}-{number:06d}-{digest}", text)
        return move
