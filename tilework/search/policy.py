"""The search policy of one task: what to measure next.

A proposal is a pure function of the seed, the task, its records and the model: a run that is
killed and started again proposes the same candidates. No candidate is lowered to code here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilework.measure.candidates import Candidate
from tilework.model import CostModel, DraftModel
from tilework.record import History, Purpose, Record
from tilework.search.choose import at_random, diverse
from tilework.search.evolve import evolve
from tilework.search.known import Known, read_known
from tilework.search.pool import Pool, concatenate
from tilework.search.protocol import Task
from tilework.search.scope import Scope
from tilework.search.scores import DraftScores, Scores
from tilework.search.sources import Drafts, MeasuredElsewhere, MeasuredHere
from tilework.search.subject import Subject
from tilework.target.identity import DeviceIdentity

HINTS = 3
"""What was best on other devices takes at most so many places of a batch."""
FIRST_SAMPLES = 2048
"""Random programs among which a model that knows nothing of the task chooses its first batch."""
FIRST_TRUST = 0.25
"""Weight of the draft in that choice."""
FIRST_DRAFTED = 0.25
"""Share of such a batch that the draft chooses alone, as if there were no model."""


class SketchPolicy:
    """Evolutionary search over the sketches of one task.

    Args:
        scope: the search task, by itself or with what its search goes by.
        model: cost model shared by all tasks; the draft model if None.

    Attributes:
        here, elsewhere, drafts: where candidates come from, beside chance.
        scores: how promising they are.
    """

    def __init__(self, scope: Scope | Task, model: CostModel | None = None) -> None:
        self.scope = scope if isinstance(scope, Scope) else Scope(scope)
        self.space, self.params = self.scope.space, self.scope.params
        self.model = self.space.asked(model or DraftModel(), lambda: self.drafts.pool)
        alone = DraftScores(self.scope)
        self.here = MeasuredHere(self.scope)
        self.elsewhere = MeasuredElsewhere(self.scope)
        self.drafts = Drafts(self.scope, alone)
        self.scores = Scores(self.scope, self.model, alone, lambda: self.drafts.best_s)

    @property
    def task(self) -> Task:
        """What is searched."""
        return self.scope.task

    @property
    def subject(self) -> Subject:
        """What candidates are measured as."""
        return self.scope.subject

    @property
    def device(self) -> DeviceIdentity | None:
        """Whose records count."""
        return self.scope.device

    def recorded(self, history: History) -> list[Record]:
        """The task's records of this device under the present rules, those of finals included."""
        return self.here.records(history)

    def known(self, history: History) -> Known:
        """The task's records that belong to its present space."""
        return self.here.known(history)

    def measured(self, history: History) -> Iterator[tuple[Task, Known, list[Record]]]:
        """Each of the tasks that candidates are measured as: its records, and those of finals."""
        for task, space in zip(self.subject.tasks, self.space.each, strict=True):
            recorded = history.of(task.workload_key, str(task.target), self.device)
            records = [r for r in recorded if r.rules_version == space.rules_version]
            finals = [r for r in records if r.purpose == Purpose.final]
            yield task, read_known(space, records), finals

    # --- proposals ---------------------------------------------------------------------------

    def propose(
        self, history: History, count: int, *, descend: bool = False, reserves: int = 0
    ) -> list[Candidate]:
        """Up to ``count`` candidates, most promising first, none with a record already.

        Fewer (or none) when the space holds no more.

        Args:
            history: the records so far.
            count: size of the batch.
            descend: take a step of a coordinate descent: only candidates that differ in one
                decision from the fastest measured one, as long as there are new ones.
            reserves: so many more stand behind them, if they do not suffice: the next best.
        """
        known = self.known(history)
        rng = self.scope.generator("propose", len(known))
        if self.model.trained and not len(known) and self.params.draft_weight > 0:
            return self._first(rng, history, known, count, reserves)
        trust = self.scores.trust(known)
        model_id = "draft" if trust == 1 else self.model.model_id
        near = self.here.neighbours(rng, known)
        if descend and known.num_ok and self.params.neighbours:
            around = self.here.steps(rng, known)
            steps = self.scores.scored(around, known, trust).without(known.keys)
            steps = steps.best(count + reserves)
            if len(steps):
                return self._candidates(steps, model_id)
        searched = self._search(rng, known, trust, near).without(known.keys)
        if len(known):
            least = int(count >= 8)
            wanted = max(least, round(self.params.eps_greedy * count))
            certain = self._at_random(rng, known, trust, wanted)
        elif self.params.draft_weight > 0:  # the first batch is diverse anyway
            certain = self.scores.scored(self.drafts.untuned_pool, known, trust)
        else:
            certain = self.space.empty()
        hints = self.elsewhere.hints(history).without(np.concatenate([known.keys, certain.key]))
        room = min(HINTS, max(1, count // 4), count - len(certain))
        certain = concatenate(
            [certain, self.scores.scored(hints.take(slice(0, room)), known, trust)]
        )
        others = self.space.empty()
        if not len(known):  # later ones would be candidates like any others
            room = max(0, min(count // 2, count - len(certain)))
            others = self._guests(history).without(certain.key).take(slice(0, room))
            certain = concatenate([certain, self.scores.scored(others, known, trust)])
        batch = self._batch(searched, near, certain, count, trust if len(known) else 0.0)
        guest = np.isin(batch.key, others.key)
        batch = concatenate([batch.take(guest), batch.take(~guest)])  # measured somewhere: first
        others = searched.without(batch.key).best(reserves if len(batch) == count else 0)
        return self._candidates(concatenate([batch, others]), model_id)

    def _first(
        self,
        rng: np.random.Generator,
        history: History,
        known: Known,
        count: int,
        reserves: int,
    ) -> list[Candidate]:
        """A task's first batch where the model has learnt from others: part of it by the draft.

        The model chooses from programs that were drawn without it: a search that goes where a
        model leads finds the family of programs that it overrates, and nothing else.
        """

        def score(pool: Pool) -> Pool:
            return self.scores.scored(pool, known, FIRST_TRUST)

        away = self._guests(history)
        drawn = self.space.sample(rng, FIRST_SAMPLES)
        near = self.space.neighbours(away, self.params.neighbours, rng)
        scored = score(concatenate([self.drafts.pool, drawn, away, near]).unique())
        hints = self.elsewhere.hints(history).take(slice(0, min(HINTS, max(1, count // 4))))
        sure = concatenate([self.drafts.untuned_pool, hints]).unique()
        away = away.without(sure.key).take(slice(0, count // 2))
        sure = concatenate([sure, away]).take(slice(0, max(1, 5 * count // 8)))
        drafted = diverse(
            self.drafts.pool.without(sure.key),
            round(FIRST_DRAFTED * count),
            self.params.diversity,
            taken=sure,
        )
        sure = score(concatenate([sure, drafted]))
        batch = self._batch(scored, self.space.empty(), sure, count, 0.0)
        guest = np.isin(batch.key, away.key)
        batch = concatenate([batch.take(guest), batch.take(~guest)])  # measured somewhere: first
        others = scored.without(batch.key).best(reserves if len(batch) == count else 0)
        return self._candidates(concatenate([batch, others]), self.model.model_id)

    def _guests(self, history: History) -> Pool:
        judge = self.scores.learned_s if self.model.trained else None
        return self.elsewhere.guests(history, judge)

    def _search(self, rng: np.random.Generator, known: Known, trust: float, near: Pool) -> Pool:
        if trust == 1 and not len(known):
            return self.scores.scored(self.drafts.pool, known, trust)
        size = self.params.population
        leaders = known.fastest(max(4, int(self.params.measured_share * size)))
        parts = [self.here.programs(known, leaders), near]
        if self.params.draft_weight > 0:
            parts.append(self.drafts.pool.best(size // 4))
        parts.append(self.space.sample(rng, max(size - sum(map(len, parts)), size // 2)))
        return evolve(
            rng,
            self.space,
            concatenate(parts),
            lambda pool: self.scores.scored(pool, known, trust),
            self.params,
        )

    def _at_random(self, rng: np.random.Generator, known: Known, trust: float, count: int) -> Pool:
        """Fresh samples that the draft model does not call hopeless, whatever their score."""
        sample = self.space.sample(rng, max(64, 16 * count)).without(known.keys)
        limit = self.params.hopeless * self.drafts.best_s
        return at_random(rng, self.scores.scored(sample, known, trust), count, limit)

    def _batch(self, pool: Pool, near: Pool, certain: Pool, count: int, by_draft: float) -> Pool:
        """Mostly the best of the pool by score, some by other rules, and those that are certain.

        Args:
            pool: scored candidates.
            near: neighbours of the fastest measured candidates: a share of the batch.
            certain: candidates that are taken in any case.
            count: size of the batch; less only if the pool is smaller.
            by_draft: how much of `PolicyParams.draft_share` applies, 0 to 1.
        """
        params = self.params
        pool = pool.without(certain.key)
        rest = count - len(certain)
        drafted = round(params.draft_share * by_draft * rest)
        beside = round(params.near_share * rest) if len(near) else 0
        weight = params.diversity * (1 + by_draft)
        head = diverse(pool, rest - drafted - beside, weight)
        others = pool.without(head.key)
        around = diverse(others.take(np.isin(others.key, near.key)), beside, weight, taken=head)
        head = concatenate([head, around])
        others = others.without(around.key)
        others = others.with_scores(others.draft_s, -np.log(others.draft_s))
        keys = diverse(others, drafted, weight, taken=head).key
        batch = concatenate([head, pool.take(np.isin(pool.key, keys)), certain])
        missing = pool.without(batch.key).best(max(0, count - len(batch)))
        return concatenate([batch, missing]).best(count)

    def _candidates(self, pool: Pool, model_id: str) -> list[Candidate]:
        out = []
        for index, row, score in zip(pool.sketch, pool.rows, pool.predicted, strict=True):
            sketch = self.space.sketches[index]
            plain = sketch.canonical(row[: sketch.num_decisions].reshape(1, -1))[0]
            decisions = tuple(int(value) for value in plain)
            out.append(Candidate(sketch.id, decisions, float(score), model_id))
        return out
