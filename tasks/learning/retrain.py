"""Retraining: read stores, train, judge, promote or not, keep the model with its card."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from storage.cards import Card, ModelError, Taught, name_of
from storage.models import Models
from tasks.learning import trees
from tasks.learning.growth import growth
from tasks.learning.judging import tried
from tasks.learning.material import MOST, Material, gather, opened
from tasks.learning.verdict import verdict
from tasks.patience import Tell, patiently
from tilework.revision import code_digest, full_version

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.model import XGBModel


@dataclass(frozen=True)
class Retrained:
    """What retraining came to, for one kind of machine.

    Attributes:
        kind: of machine.
        store: where the models are kept.
        name: of the model that was trained; empty if none was.
        before: the champion until now; empty if there was none.
        card: what is known of the model; None if none was trained.
        removed: models that were never promoted and made room.
        skipped: why nothing was trained; empty if something was.
        notes: what should be known beside it, such as files that could not be read.
    """

    kind: str
    store: str
    name: str = ""
    before: str = ""
    card: Card | None = None
    removed: tuple[str, ...] = ()
    skipped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def promoted(self) -> bool:
        """Whether the champion is another one now."""
        return self.card is not None and self.card.promoted

    @property
    def verdict(self) -> str:
        """One line: the first thing that somebody should read."""
        if self.card is None:
            return f"{self.kind}: {self.skipped}"
        word = "is champion now" if self.promoted else "is not promoted"
        return f"{self.name} {word}: {self.card.reason}"


def retrain(
    stores: Sequence[str],
    tell: Tell,
    *,
    most: int = MOST,
    force: bool = False,
    grown: float = 0.0,
    by: str = "tilework retrain",
) -> list[Retrained]:
    """Train a model for each kind of machine that the stores have records of.

    Models are kept in the first store, and promoted there.

    Args:
        stores: directories or URIs.
        tell: gets a line for each step.
        most: records that a model learns from at most.
        force: train although the records are those that the last model has learnt from.
        grown: train only where the stores have grown by this share since the champion was trained.
        by: who promotes, for the history.

    Raises:
        StoreError: a store is missing, or cannot be read or written.
    """
    open_stores, counts = opened(stores, tell)
    done = []
    for kind, held in counts.items():
        one = patiently(
            partial(_retrain, open_stores, kind, held, most, force, grown, by, tell), tell
        )
        done.append(one)
    return done


def _retrain(
    stores: Sequence[RecordStore],
    kind: str,
    held: int,
    most: int,
    force: bool,
    grown: float,
    by: str,
    tell: Tell,
) -> Retrained:
    began = time.monotonic()
    models = stores[0].models
    place, before = models.place, models.champion_name(kind)
    now = growth(models, kind, held)
    if not force and now.share < grown:
        return Retrained(kind, place, before=before, skipped=now.text)
    tell(f"{kind}: reading {held} records")
    material = gather(stores, kind, most)
    notes = tuple(line for store in stores for line in store.problems)
    if not len(material):
        why = f"none of {held} records teaches anything: rules of another version, or no workloads"
        return Retrained(kind, place, before=before, skipped=why, notes=notes)
    digest, code = material.digest, code_digest()
    if not force:
        for name, card in models.cards(kind):
            if (card.digest, card.code) == (digest, code):
                why = f"{name} has learnt from just these records already: {card.reason}"
                return Retrained(kind, place, before=before, skipped=why, notes=notes)
    champion, parent, problem = _champion(models, before)
    seen = models.seen(before) if champion is not None else np.zeros(0, np.uint64)
    memory = trees.remembering(o for one in material.taught for o in one.observations)
    trial = tried(material, memory, champion, seen, tell)
    said = verdict(trial, parent, before)
    tell(f"training on {len(material)} records of {len(material.targets)} targets")
    model = trees.of_some(memory, material.taught)
    if not model.trained:
        why = f"too few of {len(material)} records are valid: nothing can be trained"
        return Retrained(kind, place, before=before, skipped=why, notes=notes)
    reason = "; ".join(filter(None, (said.reason, problem)))
    card = Card(
        kind=kind,
        created=datetime.now(UTC),
        engine_version=full_version(),
        code=code,
        rules_version=_rules(material),
        model_id=model.model_id,
        parent=before,
        stores=material.stores,
        taught=_taught(material),
        records=len(material),
        held=held,
        digest=digest,
        parameters=trees.described(),
        judged=said.judged,
        elsewhere=said.elsewhere,
        serves=said.serves,
        anywhere=said.anywhere,
        promoted=said.promoted,
        reason=reason,
        seconds=time.monotonic() - began,
    )
    document = model.to_json()
    name = name_of(kind, document)
    if name in models.names(kind):  # what was taken back does not return by itself
        why = f"what came of it is {name}, which is there already"
        return Retrained(kind, place, before=before, skipped=why, notes=notes)
    models.keep(card, document, material.programs)
    if card.promoted:
        models.promote(name, by=by, reason=reason)
    removed = tuple(models.prune(kind))
    return Retrained(kind, place, name, before, card, removed, notes=notes)


def _champion(models: Models, name: str) -> tuple[XGBModel | None, Card | None, str]:
    """The model in use, its card, and why it cannot be used."""
    from tilework.model import CostModelError, XGBModel

    if not name:
        return None, None, ""
    try:
        return XGBModel.from_json(models.document(name)), models.card(name), ""
    except (ModelError, CostModelError) as error:
        return None, None, f"the champion {name} cannot be compared with: {error}"


def _taught(material: Material) -> tuple[Taught, ...]:
    workloads: dict[tuple[str, str], set[str]] = {}
    records: dict[tuple[str, str], int] = {}
    for one in material.taught:
        of = (one.target, one.lesson.device)
        workloads.setdefault(of, set()).add(one.lesson.workload_key)
        records[of] = records.get(of, 0) + len(one)
    return tuple(Taught(*of, len(workloads[of]), records[of]) for of in sorted(records))


def _rules(material: Material) -> int:
    from tilework.space import space_of

    return int(space_of(material.taught[0].lesson.target).version)
