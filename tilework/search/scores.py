"""How promising candidates are: by the draft model alone, or by it and the learned model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilework.model import Batch, CostModel
from tilework.model.base import Floats
from tilework.search.known import Known
from tilework.search.pool import Pool
from tilework.search.scope import Scope
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch

CREDIBLE = 1.15
"""Largest predicted throughput, relative to the best measured, that a score believes."""


class DraftScores:
    """The draft model's word."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def scored(self, pool: Pool) -> Pool:
        """Scored by the draft model alone."""
        draft_s = self.seconds(pool)
        return pool.with_scores(draft_s, -np.log(draft_s))

    def seconds(self, pool: Pool) -> Floats:
        """Seconds by the draft model, which is asked where its word is not known yet."""
        seconds = pool.draft_s.copy()
        unknown = np.flatnonzero(~np.isfinite(seconds))
        asked = pool.take(unknown)
        for index, _ in enumerate(self._scope.space.sketches):
            where, batch = of_sketch(self._scope, asked, index)
            if len(where):
                seconds[unknown[where]] = batch.draft_s
        return seconds


class Scores:
    """The word of the draft model and of the learned one together.

    Args:
        scope: the task.
        model: shared by all tasks.
        alone: the draft model's word.
        draft_best_s: gives the lowest seconds that it predicts; inf if nothing is valid.
    """

    def __init__(
        self,
        scope: Scope,
        model: CostModel,
        alone: DraftScores,
        draft_best_s: Callable[[], float],
    ) -> None:
        self._scope, self._model = scope, model
        self._alone, self._draft_best_s = alone, draft_best_s

    def trust(self, known: Known) -> float:
        """Weight of the draft model in the score, 0 to 1: falls as records of the task come."""
        weight = self._scope.params.draft_weight
        if not self._model.trained:
            return 1.0
        if weight == 0:
            return 0.0
        seen = (known.num_ok + weight / 2) / weight
        trust = 1 / (1 + seen**2)
        return 1.0 if known.model_misleads() else trust

    def scored(self, pool: Pool, known: Known, trust: float) -> Pool:
        """Predicted throughput relative to the best measured, by model and draft together.

        What is kept for the record (`Pool.predicted`) is the word of one of them, without limit:
        of the draft where it has all the trust, else of the learned model.
        """
        reference = known.best_s / known.calibration if known.num_ok else self._draft_best_s()
        if trust == 1:
            draft_s = self._alone.seconds(pool)
            return pool.with_scores(draft_s, reference / draft_s)
        draft_s, learned = np.zeros(len(pool)), np.zeros(len(pool))
        for index, _ in enumerate(self._scope.space.sketches):
            where, batch = of_sketch(self._scope, pool, index, self._draft_best_s())
            if len(where):
                draft_s[where], learned[where] = batch.draft_s, self._model.predict(batch)
        by_draft = np.minimum(reference / draft_s, CREDIBLE)
        blend = trust * by_draft + (1 - trust) * np.minimum(learned, CREDIBLE)
        return pool.with_scores(draft_s, blend, learned)

    def learned_s(self, sketch: Sketch, rows: Rows) -> Floats:
        """What the model says of rows, as numbers in proportion to seconds."""
        scope = self._scope
        batch = Batch(scope.key, scope.task.flops, sketch, rows, scope.space.draft, 1.0)
        return 1.0 / np.maximum(self._model.predict(batch), 1e-300)


def of_sketch(
    scope: Scope, pool: Pool, index: int, reference_s: float | None = None
) -> tuple[NDArray[np.intp], Batch]:
    """Positions of a pool's candidates of one sketch, and what models are asked about them."""
    where, rows = scope.space.rows_of(pool, index)
    sketch, draft = scope.space.sketches[index], scope.space.draft
    return where, Batch(scope.key, scope.task.flops, sketch, rows, draft, reference_s)
