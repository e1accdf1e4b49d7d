"""The search policy of one task: what to measure next.

A proposal is a pure function of the seed, the task, its records and the model: a run that is
killed and started again proposes the same candidates. No candidate is lowered to code here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.measure.types import Candidate
from tilework.model import Batch, CostModel, DraftModel
from tilework.record import History
from tilework.search.choose import at_random, diverse
from tilework.search.evolve import evolve
from tilework.search.known import Known, read_known
from tilework.search.options import PolicyParams
from tilework.search.pool import Pool, PoolSpace, concatenate
from tilework.search.seeding import generator

DRAFT_POOL = 1024
"""Best candidates by the draft model that are kept as seeds of later steps."""

CENTRES = 5
"""Fastest measured candidates whose single-decision neighbours are tried."""


class SketchPolicy:
    """Evolutionary search over the sketches of one task.

    Args:
        task: the search task.
        model: cost model shared by all tasks; the draft model if None.
        seed: of every random choice.
        params: effort and composition of a proposal.
        space: the task's search space; the engine's if None.
    """

    def __init__(
        self,
        task: Any,
        model: CostModel | None = None,
        *,
        seed: int = 0,
        params: PolicyParams | None = None,
        space: Any = None,
    ) -> None:
        if space is None:
            from tilework.space import SearchSpace

            space = SearchSpace.of(task)
        self.task = task
        self.model: CostModel = model or DraftModel()
        self.params = params or PolicyParams()
        self.space = PoolSpace(space)
        self._seed = seed
        self._drafts: Pool | None = None

    # --- what is known -----------------------------------------------------------------------

    def known(self, history: History) -> Known:
        """The task's records that belong to its present space."""
        from tilework.space import RULES_VERSION

        records = history.of(self.task.workload_key, str(self.task.target))
        return read_known(self.space, records, RULES_VERSION)

    @property
    def drafts(self) -> Pool:
        """The best candidates by the draft model alone, best first; found once."""
        if self._drafts is None:
            rng = self._generator("draft")
            start = self.space.sample(rng, 2 * self.params.population)
            params = replace(self.params, generations=2 * self.params.generations)
            self._drafts = evolve(rng, self.space, start, self._drafted, params).best(DRAFT_POOL)
        return self._drafts

    @property
    def draft_best_s(self) -> float:
        """Seconds that the draft model predicts for its best candidate; inf if there is none."""
        return float(self.drafts.draft_s[0]) if len(self.drafts) else np.inf

    # --- proposals ---------------------------------------------------------------------------

    def propose(self, history: History, count: int) -> list[Candidate]:
        """Up to ``count`` candidates, most promising first, none with a record already.

        Fewer (or none) when the space holds no more.
        """
        known = self.known(history)
        rng = self._generator("propose", len(known))
        trust = self._draft_trust(known)
        scored = self._search(rng, known, trust)
        fresh = scored.without(known.keys)
        return self._candidates(self._batch(rng, fresh, count, trust, first=not len(known)))

    def _draft_trust(self, known: Known) -> float:
        """Weight of the draft model in the score, 0 to 1: falls as records of the task come."""
        weight = self.params.draft_weight
        if not self.model.trained:
            return 1.0
        if weight == 0:
            return 0.0
        trust = weight / (weight + known.num_ok + weight / 2)
        return max(trust, 0.6) if known.draft_ranks_better() else trust

    def _search(self, rng: np.random.Generator, known: Known, trust: float) -> Pool:
        if trust == 1 and not len(known):
            return self._scored(self.drafts, known, trust)
        size = self.params.population
        leaders = known.fastest(max(4, int(self.params.measured_share * size)))
        centres = self._measured(known, leaders[:CENTRES])
        around = np.repeat(np.arange(len(centres)), self.params.neighbours)
        parts = [self._measured(known, leaders), self.space.mutate(rng, centres.take(around))]
        if self.params.draft_weight > 0:
            parts.append(self.drafts.best(size // 4))
        parts.append(self.space.sample(rng, max(size - sum(map(len, parts)), size // 2)))
        return evolve(
            rng,
            self.space,
            concatenate(parts),
            lambda pool: self._scored(pool, known, trust),
            self.params,
        )

    def _batch(
        self, rng: np.random.Generator, pool: Pool, count: int, trust: float, first: bool
    ) -> Pool:
        """Mostly the best by score, some by the draft model, a few at random."""
        params = self.params
        count = min(count, len(pool))
        random_count = 0 if first else _share(params.eps_greedy, count, least=int(count >= 8))
        draft_count = 0 if first else _share(params.draft_share * trust, count)
        weight = params.diversity * (1 + trust)
        head = diverse(pool, count - random_count - draft_count, weight)
        rest = pool.without(head.key)
        by_draft = rest.with_scores(rest.draft_s, -np.log(rest.draft_s))
        drafted = diverse(by_draft, draft_count, weight, taken=head)
        rest = rest.without(drafted.key)
        drafted = pool.take(np.isin(pool.key, drafted.key))  # with their scores
        chance = at_random(rng, rest, random_count, params.hopeless)
        batch = concatenate([head, drafted, chance])
        if len(batch) < count:
            missing = pool.without(batch.key).best(count - len(batch))
            batch = concatenate([batch, missing])
        return batch.best(count)

    def _candidates(self, pool: Pool) -> list[Candidate]:
        model_id = self.model.model_id if self.model.trained else "draft"
        found = []
        for index, row, score in zip(pool.sketch, pool.rows, pool.score, strict=True):
            sketch = self.space.sketches[index]
            decisions = tuple(int(value) for value in row[: sketch.num_decisions])
            found.append(Candidate(sketch.id, decisions, float(score), model_id))
        return found

    # --- scores ------------------------------------------------------------------------------

    def _drafted(self, pool: Pool) -> Pool:
        draft_s = np.zeros(len(pool))
        for index, _ in enumerate(self.space.sketches):
            where, batch = self._of_sketch(pool, index)
            if len(where):
                draft_s[where] = batch.draft_s
        return pool.with_scores(draft_s, -np.log(draft_s))

    def _scored(self, pool: Pool, known: Known, trust: float) -> Pool:
        """Predicted throughput relative to the best measured, by model and draft together."""
        draft_s, learned = np.zeros(len(pool)), np.zeros(len(pool))
        for index, _ in enumerate(self.space.sketches):
            where, batch = self._of_sketch(pool, index)
            if not len(where):
                continue
            draft_s[where] = batch.draft_s
            if trust < 1:
                learned[where] = self.model.predict(batch)
        if trust == 0:
            return pool.with_scores(draft_s, learned)
        reference = known.best_s / known.calibration if known.num_ok else self.draft_best_s
        by_draft = reference / draft_s
        if trust < 1:
            by_draft = np.minimum(by_draft, 1.2)
        return pool.with_scores(draft_s, trust * by_draft + (1 - trust) * learned)

    def _of_sketch(self, pool: Pool, index: int) -> tuple[NDArray[np.intp], Batch]:
        where, rows = self.space.rows_of(pool, index)
        task = self.task
        return where, Batch(task.workload_key, task.flops, self.space.sketches[index], rows)

    # --- helpers -----------------------------------------------------------------------------

    def _measured(self, known: Known, select: NDArray[np.intp]) -> Pool:
        """The selected records' programs as an unscored pool."""
        parts = [self.space.empty()]
        for index, _ in enumerate(self.space.sketches):
            parts.append(self.space.pool(index, known.rows(index, select)))
        return concatenate(parts)

    def _generator(self, purpose: str, step: int = 0) -> np.random.Generator:
        key, target = self.task.workload_key, str(self.task.target)
        return generator(self._seed, key, target, purpose, step)


def _share(share: float, count: int, least: int = 0) -> int:
    return max(least, round(share * count))
