"""Has a store grown since its champion was trained? One column is read to say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import RecordStore
    from storage.models import Models

ENOUGH = 0.2
"""A store that has grown by this share is worth learning from again."""


@dataclass(frozen=True)
class Growth:
    """How many records there are, and were when the last model was trained.

    Attributes:
        kind: of machine.
        name: the newest model; empty if there is none.
        held: records now.
        then: records when it was trained.
        new_targets: targets that it has learnt nothing of.
    """

    kind: str
    name: str
    held: int
    then: int
    new_targets: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """How much the store has grown: 0.2 is a fifth; inf where nothing was ever trained."""
        return (self.held - self.then) / self.then if self.then else float("inf")

    @property
    def text(self) -> str:
        """One line."""
        if not self.name:
            return f"{self.held} records of {self.kind}, and no model has learnt from them"
        return (
            f"{self.held} records of {self.kind}, {self.share:+.0%} since {self.name} learnt from "
            f"{self.then}"
        )


def growth(models: Models, kind: str, held: int, targets: Sequence[str] = ()) -> Growth:
    """Compare a store with what the newest model of a kind was made from.

    Args:
        models: the registry.
        kind: of machine.
        held: records of that kind that there are now.
        targets: of those.
    """
    newest = models.cards(kind)[:1]
    if not newest:
        return Growth(kind, "", held, 0, tuple(targets))
    name, card = newest[0]
    known = {taught.target for taught in card.taught}
    return Growth(kind, name, held, card.held, tuple(t for t in targets if t not in known))


def look_for_growth(path: str, tell: Callable[[str], None]) -> list[Growth]:
    """`grown`, of the store at a path or URI; asked again while what goes wrong may pass."""
    from tasks.patience import patiently
    from tasks.stores import open_store

    return patiently(lambda: grown(open_store(path, must_exist=True)), tell)


def grown(store: RecordStore) -> list[Growth]:
    """Of each kind of machine that a store has records of.

    Raises:
        StoreBusy: the store cannot be read now.
    """
    from tasks.learning.material import kind_of, rows_of

    counts = rows_of(store)
    kinds = []
    for kind in sorted({kind_of(target) for target in counts}):
        own = {target: n for target, n in counts.items() if kind_of(target) == kind}
        kinds.append(growth(store.models, kind, sum(own.values()), sorted(own)))
    return kinds
