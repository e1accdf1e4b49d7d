"""Whether a schedule from elsewhere is better than the draft's choice, before anybody measures it.

Copied blindly, schedules of another machine are as often slower than what the draft model chooses
as they are faster. So a guest has to win. By the learned model that the history keeps as its
champion: with half a standard deviation against it, or, if it was measured on this device as
another target's code, with a tenth in its favour. Or, without a champion, by not being much slower
than the draft's choice by the draft's own word, which errs by more than that: then only schedules
of the workload itself are looked at: those of alike ones are no better than the draft's choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from tilework.cache import BoundedCache
from tilework.errors import TileworkError
from tilework.model.base import Batch, CostModel, Floats, Rows
from tilework.model.draft import draft_of
from tilework.model.drafted import Choice, Drafted, drafted_few
from tilework.record import History, ModelLog
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask
from tilework.travel.guests import Guest, guests

TRUST = 1.5
"""How much slower than its own choice the draft may find a guest that is taken, which was measured
on this device: the draft errs by more, and what it errs by is the device's own."""
_GUESTS = 6
MEASURED_HERE = 1.1
"""By so much the score of a guest counts for more that was measured on this device."""
DOUBT = 0.5
"""Standard deviations of its score that count against any other guest."""
_LEAST_SCORE = 1e-3

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
    """The schedule that a task without records is compiled with: the draft's, or a better one.

    Where there is a champion, it chooses among the rows that the draft likes best. What it takes,
    or the draft's choice, is what schedules from elsewhere have to win against.

    Args:
        task: what is compiled.
        history: where guests and the champion come from.
        draft: the draft's choice; None if it has none.
        device: that the code is for, if it is here.
        direct: leave out rewritten DAGs (Winograd).
    """
    model = champion(history, task.target)
    own, score = draft, None
    if model is not None and draft is not None:
        own = _Scores(model, task, draft).liked(drafted_few(task, direct=direct))
        score = _Scores(model, task, own)
    near = guests(
        task,
        history,
        device=device,
        most=_GUESTS,
        direct=direct,
        judge=None if score is None else score.seconds,
        familiar=score is None and draft is not None,
    )
    if draft is None:
        winner = next(near, None)
    else:
        winner = _by_draft(near, draft) if score is None else score.best(list(near))
    return own if winner is None else _as_choice(winner)


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


def _by_draft(candidates: Iterable[Guest], draft: Choice) -> Guest | None:
    """The first guest that the draft does not call much slower than its own choice."""
    limit = TRUST * (draft.predicted_s or 0.0)
    return next((guest for guest in candidates if guest.predicted_s <= limit), None)


class _Scores:
    """What a learned model says of a task's schedules, with the draft's choice as the measure."""

    def __init__(self, model: CostModel, task: SearchTask, draft: Choice) -> None:
        self._model, self._task, self._draft = model, task, draft

    def _batch(self, sketch: Sketch, rows: Rows) -> Batch:
        task = self._task
        room, reference = draft_of(task.target), self._draft.predicted_s
        return Batch(task.workload_key, task.flops, sketch, rows, room, reference)

    def liked(self, drafts: Drafted | None) -> Choice:
        """The best of the few rows that the draft likes, its choice among them."""
        best, choice = self._one(self._draft.sketch_id, self._draft.row)[0], self._draft
        by_sketch: dict[int, list[Rows]] = {}
        for sketch_id, row in drafts.few if drafts else ():
            by_sketch.setdefault(sketch_id, []).append(row)
        for sketch_id, some in by_sketch.items():
            sketch = SearchSpace.of(self._task).sketch(sketch_id)
            batch = self._batch(sketch, sketch.canonical(np.stack(some)))
            scores = self._model.predict(batch)
            top = int(np.argmax(scores))
            if scores[top] > best:
                row, seconds = batch.rows[top], float(batch.draft_s[top])
                best = float(scores[top])
                choice = Choice(sketch_id, tuple(int(d) for d in row), "untuned", None, seconds)
        return choice

    def seconds(self, sketch: Sketch, rows: Rows) -> Floats:
        """Numbers in proportion to the seconds that the model expects."""
        return 1 / np.maximum(self._model.predict(self._batch(sketch, rows)), _LEAST_SCORE)

    def best(self, candidates: Sequence[Guest]) -> Guest | None:
        """The guest that surely is faster than the draft's choice, if one is."""
        if not candidates:
            return None
        score, _ = self._one(self._draft.sketch_id, self._draft.row)
        worth = [self._worth(guest) for guest in candidates]
        best = int(np.argmax(worth))
        return candidates[best] if worth[best] > score else None

    def _worth(self, guest: Guest) -> float:
        score, doubt = self._one(guest.sketch_id, guest.row)
        return MEASURED_HERE * score if guest.here else score - DOUBT * doubt

    def _one(self, sketch_id: int, row: Sequence[int]) -> tuple[float, float]:
        """Score of a schedule, and its standard deviation."""
        sketch = SearchSpace.of(self._task).sketch(sketch_id)
        batch = self._batch(sketch, np.array([row], np.int32))
        doubt = getattr(self._model, "uncertainty", None)
        sure = 0.0 if doubt is None else float(doubt(batch)[0])
        return float(self._model.predict(batch)[0]), sure


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
