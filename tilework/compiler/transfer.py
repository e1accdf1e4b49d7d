"""Whether a schedule from elsewhere is better than the draft's choice, before anybody measures it.

Copied blindly, schedules of another machine are worse than what the draft model chooses: half of
them are slower. So a guest has to win: by the learned model that the history keeps as its
champion, even at the low end of what that holds possible; or, without one, by not being much
slower than the draft's choice by the draft's own word, which errs by that much.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tilework.cache import BoundedCache
from tilework.errors import TileworkError
from tilework.model.base import Batch, CostModel
from tilework.model.draft import draft_of
from tilework.model.drafted import Choice
from tilework.record import History, ModelLog
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask
from tilework.travel.guests import Guest, guests

TRUST_HERE = 1.5
"""How much slower than its own choice the draft may find a guest that is taken, if that was
measured on this device: the draft errs by more, and what it errs by is the device's own."""
TRUST = 1.2
"""As `TRUST_HERE`, of a guest that was measured on another device."""
LITTLE_TRUST = 1.1
"""As `TRUST_HERE`, of one that was best for another workload, or with fewer threads: no matter
how its work divides."""
_GUESTS = 6

_MODELS: BoundedCache[str, CostModel | None] = BoundedCache(4)
"""By what their documents hash to."""


def transferred(
    task: SearchTask,
    history: History,
    draft: Choice | None,
    *,
    device: DeviceIdentity | None = None,
    direct: bool = False,
) -> Choice | None:
    """The schedule from elsewhere that a task without records is compiled with, if any.

    Args:
        task: what is compiled.
        history: where guests and the champion come from.
        draft: the draft's choice, which a guest has to win against; None if it has none.
        device: that the code is for, if it is here.
        direct: leave out rewritten DAGs (Winograd).
    """
    found = guests(task, history, device=device, most=_GUESTS, direct=direct)
    if not found:
        return None
    if draft is None:
        return _as_choice(found[0])
    model = champion(history, task.target)
    winner = _by_draft(task, found, draft) if model is None else _by(model, task, found, draft)
    return None if winner is None else _as_choice(winner)


def champion(history: History, target: Target) -> CostModel | None:
    """The learned model that a history's sessions start from, if it can be read here."""
    document = (
        history.champion(target.kind, str(target)) if isinstance(history, ModelLog) else None
    )
    if document is None:
        return None
    from tilework.model.xgb import XGBModel

    def read() -> CostModel | None:
        try:
            return XGBModel.from_json(document)
        except TileworkError:
            return None

    return _MODELS.get_or_make(hashlib.sha256(document.encode()).hexdigest(), read)


def _by_draft(task: SearchTask, found: list[Guest], draft: Choice) -> Guest | None:
    """The first guest that the draft does not call much slower than its own choice."""
    limit = draft.predicted_s or 0.0
    for guest in found:
        if guest.predicted_s <= _trust(task, guest) * limit:
            return guest
    return None


def _trust(task: SearchTask, guest: Guest) -> float:
    if guest.workload or Target(guest.origin).num_cores < task.target.num_cores:
        return LITTLE_TRUST
    return TRUST_HERE if guest.here else TRUST


def _by(model: CostModel, task: SearchTask, found: list[Guest], draft: Choice) -> Guest | None:
    """The guest that surely is faster than the draft's choice, by a learned model."""
    places = [(draft.sketch_id, draft.row), *((g.sketch_id, g.row) for g in found)]
    score, sure = np.zeros(len(places)), np.zeros(len(places))
    space, room = SearchSpace.of(task), draft_of(task.target)
    reference = draft.predicted_s
    for number in sorted({sketch for sketch, _ in places}):
        which = [i for i, (sketch, _) in enumerate(places) if sketch == number]
        rows = np.array([places[i][1] for i in which], np.int32)
        batch = Batch(task.workload_key, task.flops, space.sketch(number), rows, room, reference)
        score[which] = model.predict(batch)
        spread = getattr(model, "uncertainty", None)
        sure[which] = 0.0 if spread is None else spread(batch)
    low = score[1:] - sure[1:]
    best = int(np.argmax(low))
    return found[best] if low[best] > score[0] else None


def _as_choice(guest: Guest) -> Choice:
    return Choice(
        guest.sketch_id,
        guest.row,
        "transferred",
        None,
        guest.predicted_s,
        record_id=guest.record_id,
        device=guest.device,
        origin=guest.text,
    )
