"""Candidates of one task as arrays, whatever sketch they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model import CostModel
from tilework.model.draft import Draft, draft_of
from tilework.record import History
from tilework.search.options import TuningError
from tilework.search.protocol import Rows, Searchable, Task
from tilework.search.subject import Subject
from tilework.space import SearchSpace, space_of
from tilework.space.siblings import siblings
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNDONE = np.uint64(pow(int(GOLDEN), -1, 2**64))
_TWINS = 4
"""Candidates of a sibling that are neighbours, where it has decisions of its own."""


@frozen(eq=False)
class Pool:
    """P candidates, one array entry each.

    Attributes:
        sketch: int32, index of the candidate's sketch in the space.
        rows: int32, P x the largest number of decisions; unused columns are 0.
        key: uint64, identity of the program across sketches.
        draft_s: float64, seconds by the analytic model; inf before they are asked for.
        score: float64, what the search maximises.
        predicted: float64, what a single cost model says of the candidate; kept for the record.
    """

    sketch: NDArray[np.int32]
    rows: NDArray[np.int32]
    key: NDArray[np.uint64]
    draft_s: NDArray[np.float64]
    score: NDArray[np.float64]
    predicted: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.sketch)

    def take(self, index: Any) -> Pool:
        """The candidates that an index or mask array selects, in its order."""
        return Pool(*(getattr(self, f.name)[index] for f in fields(self)))

    def with_scores(
        self,
        draft_s: NDArray[np.float64],
        score: NDArray[np.float64],
        predicted: NDArray[np.float64] | None = None,
    ) -> Pool:
        """The same candidates, scored; ``predicted`` is the score where it is not given."""
        predicted = score if predicted is None else predicted
        return Pool(self.sketch, self.rows, self.key, draft_s, score, predicted)

    def without(self, keys: NDArray[np.uint64]) -> Pool:
        """The candidates whose key is not among ``keys``."""
        return self if not len(keys) else self.take(~np.isin(self.key, keys))

    def unique(self) -> Pool:
        """The first candidate of every key, order kept."""
        _, first = np.unique(self.key, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))

    def best(self, count: int) -> Pool:
        """The ``count`` highest scores, best first; ties keep their order."""
        return self.take(np.argsort(-self.score, kind="stable")[:count])


def concatenate(pools: Sequence[Pool]) -> Pool:
    """All candidates of the pools, in their order; at least one pool."""
    return Pool(*(np.concatenate([getattr(pool, f.name) for pool in pools]) for f in fields(Pool)))


class PoolSpace:
    """A space that is searched: the operators of its sketches, applied to pools.

    Args:
        sketches: where candidates come from.
        draft: the analytic model of the machine that they are for.
        rules_version: of the rules that the sketches were derived by: only records of this
            version speak of them.

    Attributes:
        width: the largest number of decisions of a sketch.
    """

    def __init__(self, sketches: Sequence[Searchable], draft: Draft, rules_version: int) -> None:
        self.sketches = tuple(sketches)
        self.draft, self.rules_version = draft, rules_version
        self.width = max((sketch.num_decisions for sketch in self.sketches), default=0)
        self._siblings = siblings(self.sketches)

    @classmethod
    def of(cls, task: Task) -> PoolSpace:
        """The space of a task for its target, with the draft model of that kind of machine.

        Raises:
            TuningError: the task has no space of its own.
        """
        if not isinstance(task, SearchTask):
            raise TuningError(
                f"{task.desc}: a task that is no SearchTask has no search space: hand one in"
            )
        space, target = SearchSpace.of(task), task.target
        return cls(space.sketches, draft_of(target), space_of(target).version)

    def subject(self, task: Task) -> Subject:
        """What candidates of the space are measured as, where it is a task's."""
        return Subject(task)

    @property
    def each(self) -> Sequence[PoolSpace]:
        """The spaces of the tasks that its candidates are measured as."""
        return [self]

    def asked(self, model: CostModel, drafted: Callable[[], Pool]) -> CostModel:
        """The model of static programs as it is asked about those of the space.

        Args:
            model: what is asked.
            drafted: gives the best candidates by the draft.
        """
        return model

    def at_points(self, histories: Sequence[History], device: DeviceIdentity | None) -> Pool:
        """Candidates by records of what a task is at its points; none of one without."""
        return self.empty()

    def pool(self, index: int, rows: Any) -> Pool:
        """Valid rows of one sketch as an unscored pool, without repetition."""
        sketch = self.sketches[index]
        rows = np.asarray(rows, dtype=np.int32).reshape(-1, sketch.num_decisions)
        return self._of_rows(index, rows[sketch.valid(rows)] if len(rows) else rows)

    def _of_rows(self, index: int, rows: Rows) -> Pool:
        """Rows that an operator of the sketch has made: valid, as it promises."""
        padded = np.zeros((len(rows), self.width), dtype=np.int32)
        padded[:, : rows.shape[1]] = rows
        unscored = np.full(len(rows), -np.inf)
        label = np.full(len(rows), index, dtype=np.int32)
        keys = self.keys(index, rows)
        return Pool(label, padded, keys, -unscored, unscored, unscored).unique()

    def keys(self, index: int, rows: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Identity of the programs of rows of one sketch, distinct across sketches."""
        if not len(rows):
            return np.zeros(0, dtype=np.uint64)
        hashes = np.asarray(self.sketches[index].row_hash(rows), dtype=np.uint64)
        with np.errstate(over="ignore"):
            return (hashes ^ (np.uint64(index + 1) * GOLDEN)) * GOLDEN

    def _hashes(self, index: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """What `keys` was made from: the hashes of one sketch's rows."""
        with np.errstate(over="ignore"):
            return (keys * _UNDONE) ^ (np.uint64(index + 1) * GOLDEN)

    def empty(self) -> Pool:
        """No candidate."""
        rows = np.zeros((0, self.width), dtype=np.int32)
        none = np.zeros(0)
        return Pool(np.zeros(0, np.int32), rows, np.zeros(0, np.uint64), none, none, none)

    def rows_of(self, pool: Pool, index: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Positions and decision rows of the pool's candidates of one sketch."""
        where = np.flatnonzero(pool.sketch == index)
        return where, pool.rows[where, : self.sketches[index].num_decisions]

    def sample(self, rng: np.random.Generator, count: int) -> Pool:
        """About ``count`` fresh candidates, spread evenly over the sketches; fewer if rare."""
        parts = [self.empty()]
        share = -(-count // max(1, len(self.sketches)))
        for index, sketch in enumerate(self.sketches):
            pool = self._of_rows(index, sketch.sample(rng, share))
            for _ in range(3):  # where most rows are invalid or repeat: a few more, then give up
                if len(pool) >= share // 2:
                    break
                more = self._of_rows(index, sketch.sample(rng, share))
                pool = concatenate([pool, more]).unique()
            parts.append(pool)
        return concatenate(parts)

    def neighbours(self, pool: Pool, limit: int, rng: np.random.Generator) -> Pool:
        """Candidates that differ from one of the pool in exactly one decision.

        Where one stage is computed, or how it is cut, is a decision, too.

        Args:
            pool: the centres.
            limit: at most so many neighbours of each centre, drawn at random.
            rng: of the draw.
        """
        parts = [self.empty()]
        for index, sketch in enumerate(self.sketches):
            _, rows = self.rows_of(pool, index)
            around = sketch.neighbours(rows) if len(rows) else ()
            for row, near in zip(rows, around, strict=True):
                near_by = [self._of_rows(index, near)]
                twins = np.repeat(row.reshape(1, -1), _TWINS, axis=0)
                near_by += [self._moved(rng, index, i, twins) for i in self._siblings[index]]
                fresh = concatenate(near_by).without(pool.key)
                parts.append(fresh.take(rng.permutation(len(fresh))[:limit]))
        return concatenate(parts).unique()

    def offspring(
        self,
        rng: np.random.Generator,
        parents: Pool,
        crossover: float,
        mutation: float,
        known: Pool | None = None,
    ) -> Pool:
        """One child per parent, with a second parent of the same sketch for some.

        Some parents have one more child, in which a stage is computed at another place, or is cut
        otherwise: that is one decision among those of the row. Children that are mutated avoid the
        programs of ``known``.
        """
        parts = [self.empty()]
        for index, sketch in enumerate(self.sketches):
            _, rows = self.rows_of(parents, index)
            if not len(rows):
                continue
            children = np.array(rows)
            change = rng.random(len(rows)) < mutation
            alone = np.ones(len(rows), dtype=bool)
            pairs = np.flatnonzero(rng.random(len(rows)) < crossover)
            if len(pairs):
                partners = rows[rng.integers(0, len(rows), len(pairs))]
                crossed = sketch.crossover(rng, rows[pairs], partners)
                copies = (crossed == rows[pairs]).all(axis=1) | (crossed == partners).all(axis=1)
                children[pairs], alone[pairs] = crossed, copies
            change |= alone  # a child of one parent is always mutated: it would be a copy
            if change.any():
                keys = (
                    np.zeros(0, np.uint64) if known is None else known.key[known.sketch == index]
                )
                taken = self._hashes(index, keys)
                children[change] = sketch.mutate(rng, children[change], taken)
            parts.append(self._of_rows(index, children))
            parts += self._elsewhere(rng, index, rows)
        return concatenate(parts)

    def _elsewhere(self, rng: np.random.Generator, index: int, rows: Rows) -> list[Pool]:
        """Some rows of a sketch as rows of its siblings."""
        others = self._siblings[index]
        if not others:
            return []
        share = 1 / (1 + self.sketches[index].num_live)
        chosen = rows[rng.random(len(rows)) < share]
        to = np.asarray(others)[rng.integers(0, len(others), len(chosen))]
        return [self._moved(rng, index, int(i), chosen[to == i]) for i in np.unique(to)]

    def _moved(self, rng: np.random.Generator, index: int, to: int, rows: Rows) -> Pool:
        """Rows of a sketch as rows of one of its siblings."""
        return self._of_rows(to, self.sketches[to].moved(rng, self.sketches[index], rows))
