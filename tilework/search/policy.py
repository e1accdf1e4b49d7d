"""The search policy of one task: what to measure next.

A proposal is a pure function of the seed, the task, its records and the model: a run that is
killed and started again proposes the same candidates. No candidate is lowered to code here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.measure.candidates import Candidate
from tilework.model import Batch, CostModel, DraftModel
from tilework.model.base import Floats
from tilework.model.drafted import Choice, best_drafted, drafted
from tilework.record import History, Record
from tilework.search.choose import at_random, diverse
from tilework.search.evolve import evolve
from tilework.search.known import Known, read_known
from tilework.search.options import PolicyParams
from tilework.search.pool import Pool, PoolSpace, concatenate
from tilework.search.protocol import Task
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask
from tilework.travel.guests import guests
from tilework.union import Union

DRAFT_POOL = 1024
"""Best candidates by the draft model that are kept as seeds of later steps."""

DRAFT_POPULATION, DRAFT_GENERATIONS = 320, 4
"""Effort of finding them: a search of its own, which costs every task of a run its start."""
CENTRES = 5
"""Fastest measured candidates whose single-decision neighbours are tried."""
ALL_STEPS = 4096
"""Single-decision changes that a step of the coordinate descent scores: all of most sketches."""
HINTS = 3
"""What was best on other devices takes at most so many places of a batch."""
FIRST_SAMPLES = 2048
"""Random programs among which a model that knows nothing of the task chooses its first batch."""
FIRST_TRUST = 0.25
"""Weight of the draft in that choice."""
FIRST_DRAFTED = 0.25
"""Share of such a batch that the draft chooses alone, as if there were no model."""
GUESTS_EACH = 3
"""Guests of one target and device, at most: the best measured there, then the next ones."""
CREDIBLE = 1.15
"""Largest predicted throughput, relative to the best measured, that a score believes."""


class SketchPolicy:
    """Evolutionary search over the sketches of one task.

    Args:
        task: the search task.
        model: cost model shared by all tasks; the draft model if None.
        seed: of every random choice.
        params: effort and composition of a proposal.
        space: the task's search space; that of its target if None.
        device: whose records count; those of others are hints. None: all count.
        guides: asked for hints and guests beside the history, such as packages: what stands
            there is tried, and is no measurement of this search.
    """

    def __init__(
        self,
        task: Task,
        model: CostModel | None = None,
        *,
        seed: int = 0,
        params: PolicyParams | None = None,
        space: PoolSpace | None = None,
        device: DeviceIdentity | None = None,
        guides: History | None = None,
    ) -> None:
        self.task = task
        self.device = device
        self.guides = guides
        self.model: CostModel = model or DraftModel()
        self.params = params or PolicyParams()
        self._engine_space = space is None
        self.space = PoolSpace.of(task) if space is None else space
        self._seed = seed

    # --- what is known -----------------------------------------------------------------------

    def recorded(self, history: History) -> list[Record]:
        """The task's records of this device under the present rules, those of finals included."""
        records = history.of(self.task.workload_key, str(self.task.target), self.device)
        return [r for r in records if r.rules_version == self.space.rules_version]

    def known(self, history: History) -> Known:
        """The task's records that belong to its present space."""
        return read_known(self.space, self.recorded(history))

    def hinted(self, history: History) -> Pool:
        """What was best on other devices, unscored, the most recent first.

        How fast it was there is no part of it.
        """
        parts = [self.space.empty()]
        if self.device is not None:
            key, target = self.task.workload_key, str(self.task.target)
            told = list(history.hints(key, target, self.device))
            if self.guides is not None:
                own = self.guides.best(key, target, self.device)
                told += [own] if own is not None else []
                told += self.guides.hints(key, target, self.device)
            parts += [self._program(record) for record in told]
        return concatenate(parts).unique()

    def guests(self, history: History) -> Pool:
        """What was best for other targets and for alike workloads, mapped here; unscored.

        See `tilework.travel.guests`; none where the space is not the task's own.
        """
        task, most = self.task, self.params.guests
        if not most or not isinstance(task, SearchTask):
            return self.space.empty()
        if SearchSpace.of(task).sketches != self.space.sketches:
            return self.space.empty()
        known = history if self.guides is None else Union([history, self.guides])
        found = guests(
            task, known, device=self.device, most=most, each=GUESTS_EACH,
            judge=self._learned_s if self.model.trained else None,
        )  # fmt: skip
        pools = [self.space.pool(guest.sketch_id, [guest.row]) for guest in found]
        return concatenate([self.space.empty(), *pools]).unique()

    def _learned_s(self, sketch: Sketch, rows: Rows) -> Floats:
        """What the model says of rows, as numbers in proportion to seconds."""
        task = self.task
        batch = Batch(task.workload_key, task.flops, sketch, rows, self.space.draft, 1.0)
        return 1.0 / np.maximum(self.model.predict(batch), 1e-300)

    def _program(self, record: Record) -> Pool:
        """A record's program, or none if it does not belong to the present space."""
        place = record.sketch_id, len(record.decisions)
        for index, sketch in enumerate(self.space.sketches):
            if (sketch.id, sketch.num_decisions) == place:
                present = record.rules_version == self.space.rules_version
                return self.space.pool(index, [record.decisions] if present else [])
        return self.space.empty()

    @cached_property
    def untuned(self) -> Choice | None:
        """What a compile without records chooses; None if no valid schedule was found.

        The first batch measures it, so that a run says what it gained.
        """
        if self._engine_space and isinstance(self.task, SearchTask):
            return drafted(self.task)
        key, target = self.task.workload_key, str(self.task.target)
        return best_drafted(key, target, self.space.sketches, self.space.draft)

    @property
    def untuned_s(self) -> float:
        """Seconds that the draft model predicts for `untuned`; inf if there is none."""
        found = self.untuned
        return np.inf if found is None or found.predicted_s is None else found.predicted_s

    @cached_property
    def _untuned_pool(self) -> Pool:
        """The schedule `untuned`, unscored, or no candidate."""
        found = self.untuned
        for index, sketch in enumerate(self.space.sketches):
            if found is not None and sketch.id == found.sketch_id:
                return self.space.pool(index, [found.row])
        return self.space.empty()

    @cached_property
    def drafts(self) -> Pool:
        """The best candidates by the draft model alone, `untuned` among them, best first.

        They evolve without it: a candidate that far ahead would soon be the parent of all.
        """
        rng = self._generator("draft")
        size = min(DRAFT_POPULATION, self.params.population)
        params = replace(self.params, population=size, generations=DRAFT_GENERATIONS)
        start = self.space.sample(rng, 2 * size)
        found = evolve(rng, self.space, start, self._drafted, params).best(DRAFT_POOL)
        joined = concatenate([found, self._drafted(self._untuned_pool.without(found.key))])
        return joined.best(len(joined))

    @property
    def draft_best_s(self) -> float:
        """Lowest seconds that the draft model was seen to predict; inf if nothing is valid."""
        return float(self.drafts.draft_s[0]) if len(self.drafts) else np.inf

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
        rng = self._generator("propose", len(known))
        if self.model.trained and not len(known) and self.params.draft_weight > 0:
            return self._first(rng, history, known, count, reserves)
        trust = self._draft_trust(known)
        model_id = "draft" if trust == 1 else self.model.model_id
        near = self._neighbours(rng, known)
        if descend and known.num_ok and self.params.neighbours:
            centre = self._measured(known, known.fastest(1))
            around = self.space.neighbours(centre, ALL_STEPS, rng)
            steps = self._scored(around, known, trust).without(known.keys)
            steps = steps.best(count + reserves)
            if len(steps):
                return self._candidates(steps, model_id)
        found = self._search(rng, known, trust, near).without(known.keys)
        if len(known):
            least = int(count >= 8)
            wanted = max(least, round(self.params.eps_greedy * count))
            certain = self._at_random(rng, known, trust, wanted)
        elif self.params.draft_weight > 0:  # the first batch is diverse anyway
            certain = self._scored(self._untuned_pool, known, trust)
        else:
            certain = self.space.empty()
        hints = self.hinted(history).without(np.concatenate([known.keys, certain.key]))
        room = min(HINTS, max(1, count // 4), count - len(certain))
        certain = concatenate([certain, self._scored(hints.take(slice(0, room)), known, trust)])
        others = self.space.empty()
        if not len(known):  # later ones would be candidates like any others
            room = max(0, min(count // 2, count - len(certain)))
            others = self.guests(history).without(certain.key).take(slice(0, room))
            certain = concatenate([certain, self._scored(others, known, trust)])
        batch = self._batch(found, near, certain, count, trust if len(known) else 0.0)
        guest = np.isin(batch.key, others.key)
        batch = concatenate([batch.take(guest), batch.take(~guest)])  # measured somewhere: first
        others = found.without(batch.key).best(reserves if len(batch) == count else 0)
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
            return self._scored(pool, known, FIRST_TRUST)

        away = self.guests(history)
        drawn = self.space.sample(rng, FIRST_SAMPLES)
        near = self.space.neighbours(away, self.params.neighbours, rng)
        found = score(concatenate([self.drafts, drawn, away, near]).unique())
        hints = self.hinted(history).take(slice(0, min(HINTS, max(1, count // 4))))
        sure = concatenate([self._untuned_pool, hints]).unique()
        away = away.without(sure.key).take(slice(0, count // 2))
        sure = concatenate([sure, away]).take(slice(0, max(1, 5 * count // 8)))
        drafted = diverse(
            self.drafts.without(sure.key),
            round(FIRST_DRAFTED * count),
            self.params.diversity,
            taken=sure,
        )
        sure = score(concatenate([sure, drafted]))
        batch = self._batch(found, self.space.empty(), sure, count, 0.0)
        guest = np.isin(batch.key, away.key)
        batch = concatenate([batch.take(guest), batch.take(~guest)])  # measured somewhere: first
        others = found.without(batch.key).best(reserves if len(batch) == count else 0)
        return self._candidates(concatenate([batch, others]), self.model.model_id)

    def _draft_trust(self, known: Known) -> float:
        """Weight of the draft model in the score, 0 to 1: falls as records of the task come."""
        weight = self.params.draft_weight
        if not self.model.trained:
            return 1.0
        if weight == 0:
            return 0.0
        seen = (known.num_ok + weight / 2) / weight
        trust = 1 / (1 + seen**2)
        return 1.0 if known.model_misleads() else trust

    def _neighbours(self, rng: np.random.Generator, known: Known) -> Pool:
        """Single-decision changes of the fastest measured candidates."""
        centres = self._measured(known, known.fastest(CENTRES))
        return self.space.neighbours(centres, self.params.neighbours, rng)

    def _search(self, rng: np.random.Generator, known: Known, trust: float, near: Pool) -> Pool:
        if trust == 1 and not len(known):
            return self._scored(self.drafts, known, trust)
        size = self.params.population
        leaders = known.fastest(max(4, int(self.params.measured_share * size)))
        parts = [self._measured(known, leaders), near]
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

    def _at_random(self, rng: np.random.Generator, known: Known, trust: float, count: int) -> Pool:
        """Fresh samples that the draft model does not call hopeless, whatever their score."""
        sample = self.space.sample(rng, max(64, 16 * count)).without(known.keys)
        limit = self.params.hopeless * self.draft_best_s
        return at_random(rng, self._scored(sample, known, trust), count, limit)

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
        found = []
        for index, row, told in zip(pool.sketch, pool.rows, pool.predicted, strict=True):
            sketch = self.space.sketches[index]
            plain = sketch.canonical(row[: sketch.num_decisions].reshape(1, -1))[0]
            decisions = tuple(int(value) for value in plain)
            found.append(Candidate(sketch.id, decisions, float(told), model_id))
        return found

    # --- scores ------------------------------------------------------------------------------

    def _drafted(self, pool: Pool) -> Pool:
        """Scored by the draft model alone."""
        draft_s = self._draft_s(pool)
        return pool.with_scores(draft_s, -np.log(draft_s))

    def _draft_s(self, pool: Pool) -> Floats:
        """Seconds by the draft model, which is asked where its word is not known yet."""
        seconds = pool.draft_s.copy()
        unknown = np.flatnonzero(~np.isfinite(seconds))
        asked = pool.take(unknown)
        for index, _ in enumerate(self.space.sketches):
            where, batch = self._of_sketch(asked, index)
            if len(where):
                seconds[unknown[where]] = batch.draft_s
        return seconds

    def _scored(self, pool: Pool, known: Known, trust: float) -> Pool:
        """Predicted throughput relative to the best measured, by model and draft together.

        What is kept for the record (`Pool.predicted`) is the word of one of them, without limit:
        of the draft where it has all the trust, else of the learned model.
        """
        reference = known.best_s / known.calibration if known.num_ok else self.draft_best_s
        if trust == 1:
            draft_s = self._draft_s(pool)
            return pool.with_scores(draft_s, reference / draft_s)
        draft_s, learned = np.zeros(len(pool)), np.zeros(len(pool))
        for index, _ in enumerate(self.space.sketches):
            where, batch = self._of_sketch(pool, index, self.draft_best_s)
            if len(where):
                draft_s[where], learned[where] = batch.draft_s, self.model.predict(batch)
        by_draft = np.minimum(reference / draft_s, CREDIBLE)
        blend = trust * by_draft + (1 - trust) * np.minimum(learned, CREDIBLE)
        return pool.with_scores(draft_s, blend, learned)

    def _of_sketch(
        self, pool: Pool, index: int, reference_s: float | None = None
    ) -> tuple[NDArray[np.intp], Batch]:
        where, rows = self.space.rows_of(pool, index)
        task, sketch = self.task, self.space.sketches[index]
        draft = self.space.draft
        return where, Batch(task.workload_key, task.flops, sketch, rows, draft, reference_s)

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
