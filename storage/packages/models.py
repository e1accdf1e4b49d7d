"""Learned models in packages: a document, and for which targets it was shown to be of use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tilework.frozen import frozen

if TYPE_CHECKING:
    from storage.store import RecordStore


@frozen
class ServingModel:
    """A champion as a package carries it.

    Attributes:
        document: what `tilework.model.XGBModel.to_json` wrote. Whoever uses it checks it.
        serves: targets on which it was shown to be better than what was before.
        anywhere: whether it was shown to help targets that it has not seen.
    """

    document: str
    serves: tuple[str, ...] = ()
    anywhere: bool = False

    def to_json(self) -> str:
        """The text in a package; equal models give equal texts."""
        document = {
            "document": self.document,
            "serves": sorted(self.serves),
            "anywhere": self.anywhere,
        }
        return json.dumps(document, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ServingModel | None:
        """Reads what `to_json` wrote; None if it is something else."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(document, Mapping) or not isinstance(document.get("document"), str):
            return None
        serves = document.get("serves")
        if not isinstance(serves, list) or not all(isinstance(one, str) for one in serves):
            return None
        return cls(document["document"], tuple(serves), document.get("anywhere") is True)

    def is_for(self, target: str | None) -> bool:
        """Whether searches for a target begin with it; None stands for any."""
        return target is None or self.anywhere or target in self.serves


def champions(store: RecordStore, kinds: Iterable[str]) -> dict[str, str]:
    """The champions of a store as packages carry them, by kind of machine.

    Raises:
        StoreError: the store cannot be read, or a champion is damaged.
    """
    champion_of = {}
    for kind in sorted(set(kinds)):
        document = store.models.champion(kind)
        if document is not None:
            card = store.models.card(store.models.champion_name(kind))
            champion_of[kind] = ServingModel(document, card.serves, card.anywhere).to_json()
    return champion_of
