"""The original's search of one task: what to measure next.

Fresh random programs in every round, evolution by mutation alone with parents in proportion to
their predicted throughput, and a batch of the best ones with one in twenty at random. Constants
are the published ones (release 0.14, CPU).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ansor.features import features
from ansor.model import AnsorModel
from ansor.moves import Moves
from ansor.rules import ANSOR_RULES
from tilework.measure.candidates import Candidate
from tilework.record import History
from tilework.search.known import Known, read_known
from tilework.search.pool import Pool, PoolSpace, concatenate
from tilework.search.seeding import generator
from tilework.space.rules import place_producer
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask

POPULATION, GENERATIONS, GENERATIONS_BY_CHANCE = 2048, 4, 2
MUTATION = 0.85
LEAST_SAMPLES, ATTEMPTS = 50, 20
MEASURED_SHARE = 0.2
BATCH, AT_RANDOM = 64, 0.05

RULES = (*ANSOR_RULES[:-1], place_producer, ANSOR_RULES[-1])
"""The original's sketches, each with every place at which its padding may be computed: there,
that place is drawn when a sketch is annotated."""


def ansor_task(task: SearchTask) -> SearchTask:
    """The same computation with the original's space; its records have a key of their own."""
    return SearchTask(
        task.compute_dag, task.target, task.desc, task.weight, rules=RULES, inputs=task.inputs
    )


class AnsorPolicy:
    """Proposes what the original would measure.

    Args:
        task: a task with the rules `RULES`; see `ansor_task`.
        seed: of every random choice.
        space: to search; the task's own if None.
        device: whose records count; None: all do.
        population: programs sampled in a round, and children of a generation.
    """

    def __init__(
        self,
        task: SearchTask,
        *,
        seed: int = 0,
        space: PoolSpace | None = None,
        device: DeviceIdentity | None = None,
        population: int = POPULATION,
    ) -> None:
        self.task, self.seed, self.device = task, seed, device
        self.space = PoolSpace.of(task) if space is None else space
        self.model = AnsorModel()
        self.population = population
        self._moves = Moves(self.space.sketches, task.target.num_cores)  # type: ignore[arg-type]
        self._learnt = 0

    def known(self, history: History) -> Known:
        """The task's records, in the order they were made."""
        key, target = self.task.workload_key, str(self.task.target)
        return read_known(self.space, history.of(key, target, self.device))

    def propose(self, history: History, count: int = BATCH) -> list[Candidate]:
        """The next batch, from what the history holds and nothing else."""
        known = self.known(history)
        self._learn(known)
        key, target = self.task.workload_key, str(self.task.target)
        rng = generator(self.seed, key, target, "ansor", len(known))
        start = self._sample(rng)
        if not len(start):
            return []
        fastest = known.fastest(int(MEASURED_SHARE * self.population))
        measured = [self.space.pool(i, known.rows(i, fastest)) for i in self._sketches()]
        at_random = max(1, int(AT_RANDOM * count))
        drawn = start.take(rng.integers(len(start), size=3 * at_random))
        best = self._evolve(rng, concatenate([start, *measured]), known.keys, 2 * count)
        drawn = drawn.unique().without(known.keys)
        head = best.best(count - at_random)
        head = concatenate([head, drawn.without(head.key)]).take(slice(0, count - at_random))
        rest = concatenate([drawn.without(head.key), best.without(head.key)]).unique()
        return self._candidates(concatenate([head, rest.take(slice(0, count - len(head)))]))

    # --- steps -------------------------------------------------------------------------------

    def _sample(self, rng: np.random.Generator) -> Pool:
        """All distinct valid programs of some rounds of random annotation."""
        found, least, unchanged = self.space.empty(), LEAST_SAMPLES, 0
        for _ in range(ATTEMPTS):
            new = self._pool(self._moves.sample(rng, self.population))
            size = len(found)
            found = concatenate([found, new]).unique()
            unchanged = unchanged + 1 if len(found) == size else 0
            if unchanged == 5:
                least, unchanged = max(1, least // 2), 0
            if len(found) >= least:
                break
        return found

    def _evolve(
        self, rng: np.random.Generator, population: Pool, measured: NDArray[np.uint64], keep: int
    ) -> Pool:
        """The best programs of all generations that were not measured, best first."""
        best = self.space.empty()
        generations = GENERATIONS if self.model.trained else GENERATIONS_BY_CHANCE
        for generation in range(generations + 1):
            population = self._scored(population, rng)
            best = concatenate([best, population.without(measured)]).unique().best(keep)
            if generation == generations:
                break
            weight = np.maximum(population.score, 0.0)
            chances = np.cumsum(weight) if weight.sum() > 0 else np.arange(1.0, len(weight) + 1)
            population = self._offspring(rng, population, chances / chances[-1])
            if not len(population):
                break
        return best

    def _offspring(
        self, rng: np.random.Generator, parents: Pool, chances: NDArray[np.float64]
    ) -> Pool:
        """As many programs as the population has: mostly children, the others parents again."""
        parts, total = [self.space.empty()], 0
        for _ in range(ATTEMPTS):
            wanted = self.population - total
            chosen = parents.take(np.searchsorted(chances, rng.random(wanted)))
            change = rng.random(wanted) < MUTATION
            parts.append(chosen.take(~change))
            changing = chosen.take(change)
            for index in self._sketches():
                _, rows = self.space.rows_of(changing, index)
                if len(rows):
                    for there, children in self._moves.mutate(rng, index, rows):
                        parts.append(self._padded(there, children))
            total = sum(map(len, parts))
            if total >= self.population:
                break
        return concatenate(parts).take(slice(0, self.population))

    def _scored(self, pool: Pool, rng: np.random.Generator) -> Pool:
        """With the model's word; programs that occur several times are asked for once."""
        once = pool.unique()
        scores = np.zeros(len(once))
        for index, sketch in enumerate(self.space.sketches):
            where, rows = self.space.rows_of(once, index)
            if not len(where):
                continue
            if self.model.trained:
                scores[where] = self.model.predict(features(sketch, rows), rng)  # type: ignore[arg-type]
            else:
                scores[where] = rng.random(len(where))
        order = np.argsort(once.key)
        at = order[np.searchsorted(once.key, pool.key, sorter=order)]
        return pool.with_scores(pool.draft_s, scores[at])

    def _learn(self, known: Known) -> None:
        """Train on the records that the model has not seen."""
        new = np.arange(self._learnt, len(known))
        packs: dict[int, NDArray[np.float32]] = {}
        for index, sketch in enumerate(self.space.sketches):
            where = new[known.sketch[new] == index] if len(new) else new
            if len(where):
                found = features(sketch, known.rows(index, where))  # type: ignore[arg-type]
                packs.update(zip(where.tolist(), found, strict=True))
        if len(new):
            latencies = [float(known.latency_s[i]) for i in new]
            self.model.learn([packs[int(i)] for i in new], latencies)
            self._learnt = len(known)

    # --- pools -------------------------------------------------------------------------------

    def _sketches(self) -> range:
        return range(len(self.space.sketches))

    def _pool(self, parts: list[tuple[int, NDArray[np.int32]]]) -> Pool:
        return concatenate([self.space.empty(), *(self._padded(i, rows) for i, rows in parts)])

    def _padded(self, index: int, rows: NDArray[np.int32]) -> Pool:
        """Valid rows of one sketch as an unscored pool; repetitions stay."""
        padded = np.zeros((len(rows), self.space.width), np.int32)
        padded[:, : rows.shape[1]] = rows
        unscored = np.full(len(rows), -np.inf)
        label = np.full(len(rows), index, np.int32)
        return Pool(label, padded, self.space.keys(index, rows), -unscored, unscored, unscored)

    def _candidates(self, pool: Pool) -> list[Candidate]:
        found = []
        for index, row, score in zip(pool.sketch, pool.rows, pool.score, strict=True):
            sketch = self.space.sketches[index]
            decisions = tuple(int(v) for v in row[: sketch.num_decisions])
            told = float(score) if np.isfinite(score) else 0.0
            found.append(Candidate(sketch.id, decisions, told, self.model.model_id))
        return found
