"""The registry of learned cost models: what they are, where they come from, which one is in use.

A model is immutable and named by its content: `llvm-3f2a9c0d1b7e`. Beside its document lie its
card (what it was learnt from, how it was judged) and the programs that it has seen. Which model
a kind of machine uses is a log of moves: each is a document of its own that is never changed. All
of it are documents of the store (`storage.documents`), so any number of processes may write.

    _models/NAME      what `XGBModel.to_json` wrote
    _seen/NAME        which programs it was trained on, 64 bits for each
    _cards/NAME       the card, written last: a model without one is not in the registry
    _moves/KIND-NUMBER-DIGEST    one promotion or rollback

Names of another form in `_models` are models of runs of before there was a registry, one for each
target: nothing reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from storage.cards import (
    NAME,
    Card,
    ModelError,
    Move,
    card_text,
    champions,
    kind_of,
    name_of,
    read_card,
    serves,
)
from storage.documents import Documents
from storage.moves import MOVES, Moves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

MODELS, SEEN, CARDS = "models", "seen", "cards"
"""Kinds of the documents."""
LOSERS_KEPT = 10
"""Models of a kind that were never promoted and are kept: the newest."""


class _Wrong(ModelError):
    """A document that can be read and is not what it should be."""

    def __init__(self, place: str, name: str, reason: str) -> None:
        super().__init__(f"{place}: the model {name!r} is not used: {reason}")
        self.reason = reason


class Models:
    """The registry of one store.

    Args:
        open_documents: gives the store's documents of a kind: `RecordStore.documents`.
        place: the store, for messages.

    Attributes:
        moves: which models were champions, and who made them so.
    """

    def __init__(self, open_documents: Callable[[str], Documents], place: str) -> None:
        self._documents = open_documents
        self.moves = Moves(open_documents(MOVES))
        self.place = place

    # --- models ------------------------------------------------------------------------------

    def keep(self, card: Card, document: str, seen: NDArray[np.uint64] | None = None) -> str:
        """Keeps a model and gives its name; one that is kept already is left as it is.

        Args:
            card: what is to be known of it.
            document: the model.
            seen: names of the programs that it was trained on, 64 bits each.

        Raises:
            StoreError: the store cannot be written, or the model is too large for it.
        """
        name = name_of(card.kind, document)
        if self._documents(CARDS).read(name) is not None:
            return name
        self._documents(MODELS).keep(name, document)
        if seen is not None:
            self._documents(SEEN).keep(name, np.sort(seen).astype("<u8").tobytes())
        self._documents(CARDS).keep(name, card_text(card))
        return name

    def names(self, kind: str | None = None) -> list[str]:
        """The names of all models, or of those of a kind, sorted."""
        parsed = ((name, NAME.fullmatch(name)) for name in self._documents(CARDS).names())
        return [name for name, match in parsed if match and kind in (None, match[1])]

    def kinds(self) -> list[str]:
        """The kinds of machine that there are models of, or moves, sorted."""
        return sorted({kind_of(name) for name in self.names()} | self.moves.kinds())

    def cards(self, kind: str | None = None) -> list[tuple[str, Card]]:
        """Models whose cards can be read, the newest first; `problems` tells of the others."""
        cards = []
        for name in self.names(kind):
            try:
                cards.append((name, self.card(name)))
            except ModelError:
                continue
        return sorted(cards, key=lambda one: (one[1].created, one[0]), reverse=True)

    @property
    def problems(self) -> list[str]:
        """One line for each card or move that was asked for and cannot be used."""
        lines = [*self._documents(CARDS).problems, *self.moves.problems]
        for name in self.names():
            try:
                self.card(name)
            except ModelError as error:
                lines.append(str(error))
        return list(dict.fromkeys(lines))

    def faults(self) -> Iterator[tuple[str, str, str]]:
        """What is no model, or no card, as it should be: (kind of document, name, what is wrong).

        Documents that cannot be read at all are not among them.
        """
        for name in self.names():
            for kind, read in ((CARDS, self.card), (MODELS, self.document)):
                try:
                    read(name)
                except _Wrong as error:
                    yield kind, name, error.reason
                except ModelError:
                    continue

    def usable(self, name: str) -> bool:
        """Whether a model is there and whole; no model (empty) is."""
        try:
            return not name or bool(self.card(name) and self.document(name))
        except ModelError:
            return False

    def find(self, text: str) -> str:
        """The one model whose name begins so; `champion` is that of the only kind.

        Raises:
            ModelError: there is none, or several.
        """
        if text == "champion":
            now = [name for kind in self.kinds() if (name := self.champion_name(kind))]
            if len(now) == 1:
                return now[0]
            some = f"there are {len(now)}: name one" if now else "there is none"
            raise ModelError(
                f"{self.place}: no single champion: {some}; see `tilework model list`"
            )
        names = self.names()
        matching = [name for name in names if name.startswith(text) or name.endswith(f"-{text}")]
        if text in matching:
            return text
        if len(matching) == 1:
            return matching[0]
        if matching:
            few = ", ".join(matching[:3])
            raise ModelError(f"{self.place}: {text!r} may be {few}: write more of the name")
        raise ModelError(
            f"{self.place}: there is no model {text!r}"
            + (": `tilework model list` shows those that are there" if names else " nor any other")
        )

    def card(self, name: str) -> Card:
        """The card of a model.

        Raises:
            ModelError: there is none, or it cannot be read.
        """
        content = self._documents(CARDS).read(name)
        if content is None:
            raise ModelError(self._missing(CARDS, name))
        try:
            card = read_card(content)
        except ValueError as error:
            raise _Wrong(self.place, name, str(error)) from None
        if card.kind != kind_of(name):
            raise _Wrong(self.place, name, f"its card is of another kind, {card.kind!r}")
        return card

    def document(self, name: str) -> str:
        """The text of a model, whole and as it was kept.

        Raises:
            ModelError: there is none, or it is damaged, or another one's.
        """
        content = self._documents(MODELS).read(name)
        if content is None:
            raise ModelError(self._missing(MODELS, name))
        text = content.decode("utf-8", "replace")
        if name_of(kind_of(name), text) != name:
            raise _Wrong(self.place, name, "its content is another one's")
        return text

    def seen(self, name: str) -> NDArray[np.uint64]:
        """Names of the programs that a model was trained on, sorted; empty: unknown."""
        content = self._documents(SEEN).read(name) or b""
        return np.frombuffer(content[: len(content) // 8 * 8], dtype="<u8").astype(np.uint64)

    def remove(self, name: str) -> None:
        """Removes a model that is no champion and never was one.

        Raises:
            ModelError: it was.
        """
        if name in self.moves.ever(kind_of(name)):
            raise ModelError(f"{self.place}: {name!r} has been the champion: it stays")
        for kind in (CARDS, MODELS, SEEN):
            self._documents(kind).remove(name)

    def prune(self, kind: str, most: int = LOSERS_KEPT) -> list[str]:
        """Removes the oldest of the models that were never promoted; says which."""
        ever = self.moves.ever(kind)
        losers = [name for name, _ in self.cards(kind) if name not in ever]
        for name in losers[most:]:
            self.remove(name)
        return losers[most:]

    # --- champions ---------------------------------------------------------------------------

    def champion_name(self, kind: str) -> str:
        """The champion of a kind; empty if there is none."""
        moves = self.moves.of(kind)
        return moves[-1].name if moves else ""

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """See `tilework.record.ModelLog.champion`. One promoted by hand serves every target.

        Raises:
            ModelError: it is there and cannot be read.
        """
        moves = self.moves.of(kind)
        name = moves[-1].name if moves else ""
        if not name:
            return None
        promoted = [move for move in moves if move.action == "promote" and move.name == name]
        by_hand = bool(promoted) and promoted[-1].by_hand
        if target is not None and not by_hand and not serves(self.card(name), target):
            return None
        return self.document(name)

    def promote(self, name: str, *, by: str, reason: str = "") -> Move:
        """Makes a model the champion of its kind.

        Raises:
            ModelError: there is no such model, it cannot be read, or it is the champion already.
            StoreError: the store cannot be written.
        """
        kind = kind_of(name)
        self.card(name)
        self.document(name)
        if self.champion_name(kind) == name:
            raise ModelError(f"{self.place}: {name!r} is the champion already")
        return self.moves.add(kind, "promote", name, by, reason)

    def rollback(self, kind: str, *, by: str, reason: str = "") -> Move:
        """Brings back the champion before the present one; done again, the one before that.

        Before the first one there was none, so that sessions begin without a model again.

        Raises:
            ModelError: there is no champion to take back, or the one before cannot be read.
            StoreError: the store cannot be written.
        """
        line = champions(self.moves.of(kind))
        if not line:
            raise ModelError(
                f"{self.place}: no model of kind {kind!r} is champion: none to take back"
            )
        before = line[-2] if len(line) > 1 else ""
        if before:
            self.document(before)
        return self.moves.add(kind, "rollback", before, by, reason)

    def _missing(self, kind: str, name: str) -> str:
        damaged = [line for line in self._documents(kind).problems if name in line]
        return f"{self.place}: {damaged[0] if damaged else f'there is no such model: {name!r}'}"
