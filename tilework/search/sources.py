"""Where candidates come from: what was measured, what was best elsewhere, what the draft finds.

Each gives pools; what is measured of them is `tilework.search.policy`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Floats
from tilework.model.drafted import Choice, best_drafted, drafted
from tilework.record import History, Record
from tilework.search.evolve import evolve
from tilework.search.known import Known, read_known
from tilework.search.pool import Pool, concatenate
from tilework.search.scope import Scope
from tilework.search.scores import DraftScores
from tilework.space import SearchSpace
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch
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
GUESTS_EACH = 3
"""Guests of one target and device, at most: the best measured there, then the next ones."""


Judge = Callable[[Sketch, Rows], Floats]
"""Of rows, numbers in proportion to seconds."""


class MeasuredHere:
    """The task's own records, and what is one decision away from the fastest of them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def records(self, history: History) -> list[Record]:
        """The task's records of this device under the present rules, those of finals included."""
        scope = self._scope
        records = scope.subject.joined(scope.subject.of(history, scope.device))
        return [r for r in records if r.rules_version == scope.space.rules_version]

    def known(self, history: History) -> Known:
        """Those that belong to its present space."""
        return read_known(self._scope.space, self.records(history))

    def programs(self, known: Known, select: NDArray[np.intp]) -> Pool:
        """The selected records' programs, unscored."""
        space = self._scope.space
        parts = [space.empty()]
        for index, _ in enumerate(space.sketches):
            parts.append(space.pool(index, known.rows(index, select)))
        return concatenate(parts)

    def neighbours(self, rng: np.random.Generator, known: Known) -> Pool:
        """Single-decision changes of the fastest ones."""
        centres = self.programs(known, known.fastest(CENTRES))
        return self._scope.space.neighbours(centres, self._scope.params.neighbours, rng)

    def steps(self, rng: np.random.Generator, known: Known) -> Pool:
        """All, or very many, single-decision changes of the fastest one."""
        centre = self.programs(known, known.fastest(1))
        return self._scope.space.neighbours(centre, ALL_STEPS, rng)


class MeasuredElsewhere:
    """What was best on other devices, for other targets, and for alike workloads; unscored."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def hints(self, history: History) -> Pool:
        """What was best on other devices, the most recent first.

        How fast it was there is no part of it. Of a family, first what is fastest at its points.
        """
        scope = self.scope
        asked = [history] if scope.guides is None else [history, scope.guides]
        parts = [scope.space.at_points(asked, scope.device)]
        if scope.device is not None:
            records = list(history.hints(scope.key, scope.target, scope.device))
            if scope.guides is not None:
                own = scope.guides.best(scope.key, scope.target, scope.device)
                records += [own] if own is not None else []
                records += scope.guides.hints(scope.key, scope.target, scope.device)
            parts += [self._program(record) for record in records]
        return concatenate(parts).unique()

    def guests(self, history: History, judge: Judge | None = None) -> Pool:
        """What was best for other targets and for alike workloads, mapped here.

        See `tilework.travel.guests`, also for ``judge``; none where the space is not the task's
        own.
        """
        scope, task, most = self.scope, self.scope.task, self.scope.params.guests
        if not most or not isinstance(task, SearchTask):
            return scope.space.empty()
        if SearchSpace.of(task).sketches != scope.space.sketches:
            return scope.space.empty()
        asked = history if scope.guides is None else Union([history, scope.guides])
        mapped = guests(task, asked, device=scope.device, most=most, each=GUESTS_EACH, judge=judge)
        pools = [scope.space.pool(guest.sketch_id, [guest.row]) for guest in mapped]
        return concatenate([scope.space.empty(), *pools]).unique()

    def _program(self, record: Record) -> Pool:
        """A record's program, or none if it does not belong to the present space."""
        space = self.scope.space
        place = record.sketch_id, len(record.decisions)
        for index, sketch in enumerate(space.sketches):
            if (sketch.id, sketch.num_decisions) == place:
                present = record.rules_version == space.rules_version
                return space.pool(index, [record.decisions] if present else [])
        return space.empty()


class Drafts:
    """What the draft model finds by itself, with no record."""

    def __init__(self, scope: Scope, scores: DraftScores) -> None:
        self._scope, self._scores = scope, scores

    @cached_property
    def untuned(self) -> Choice | None:
        """What a compile without records chooses; None if no valid schedule was found.

        The first batch measures it, so that a run says what it gained.
        """
        scope = self._scope
        if scope.own_space is None and isinstance(scope.task, SearchTask):
            return drafted(scope.task)
        drafts = best_drafted(scope.key, scope.target, scope.space.sketches, scope.space.draft)
        return None if drafts is None else drafts.choice

    @property
    def untuned_s(self) -> float:
        """Seconds that the draft model predicts for `untuned`; inf if there is none."""
        choice = self.untuned
        return np.inf if choice is None or choice.predicted_s is None else choice.predicted_s

    @cached_property
    def untuned_pool(self) -> Pool:
        """The schedules of `untuned`, unscored, or no candidate."""
        choice, space = self.untuned, self._scope.space
        place = {sketch.id: index for index, sketch in enumerate(space.sketches)}
        schedules = choice.schedules if choice is not None else ()
        pools = [space.pool(place[n], [row]) for n, row in schedules if n in place]
        return concatenate([space.empty(), *pools]).unique()

    @cached_property
    def pool(self) -> Pool:
        """The best candidates by the draft model alone, `untuned` among them, best first.

        They evolve without it: a candidate that far ahead would soon be the parent of all.
        """
        scope, score = self._scope, self._scores.scored
        rng = scope.generator("draft")
        size = min(DRAFT_POPULATION, scope.params.population)
        params = replace(scope.params, population=size, generations=DRAFT_GENERATIONS)
        start = scope.space.sample(rng, 2 * size)
        evolved = evolve(rng, scope.space, start, score, params).best(DRAFT_POOL)
        joined = concatenate([evolved, score(self.untuned_pool.without(evolved.key))])
        return joined.best(len(joined))

    @property
    def best_s(self) -> float:
        """Lowest seconds that the draft model was seen to predict; inf if nothing is valid."""
        return float(self.pool.draft_s[0]) if len(self.pool) else np.inf
