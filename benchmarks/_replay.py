"""The search on recorded programs that nobody searched for: what strategies need.

Only rows that were drawn at random, or by a grid, count: rows that some search has found would
favour searches of its kind. And only these rows can be proposed (`_pool`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _dataset import DATASET, GRID, RANDOM
from _pool import ListedSketch, ListedSpace
from _recorded import Replay
from ansor.features import features
from ansor.model import WARM_UP, AnsorModel
from ansor.search import AT_RANDOM, BATCH
from numpy.typing import NDArray

from storage import RecordStore
from tasks.learning.trees import trained
from tilework.measure.candidates import Candidate
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.record import History, MemoryHistory, Record
from tilework.search import PolicyParams, Scope, SketchPolicy
from tilework.search.corpus import lessons
from tilework.search.known import observations
from tilework.search.pool import Pool, concatenate
from tilework.search.seeding import generator
from tilework.search.sources import Judge, MeasuredElsewhere
from tilework.search.start import champion
from tilework.task import SearchTask
from tilework.travel.guests import guests

MOST = 400
"""Trials after which a search counts as having needed so many."""
NEAR = 1.05
OURS_BATCH = 16


def open_dataset(paths: Sequence[Path] = (DATASET,)) -> MemoryHistory:
    """The rows of some stores that nobody searched for, and what their workloads compute."""
    history = MemoryHistory()
    for path in paths:
        store = RecordStore(path, must_exist=True)
        records = [r for r in store.read() if r.model_id in (RANDOM, GRID)]
        history.append(records)
        for key in {r.workload_key for r in records}:
            document = store.workload(key)
            if document is not None:
                history.keep_workload(key, document)
    return history


def targets_of(history: MemoryHistory) -> list[str]:
    """The targets that a dataset has rows of."""
    return sorted({target for target, _ in history.keys()})  # noqa: SIM118


@dataclass(frozen=True, eq=False)
class World:
    """What is replayed: the rows of one target, and the sketches that they are of."""

    replay: Replay

    @staticmethod
    def of(history: MemoryHistory, target: str) -> World:
        """The rows of a target of a dataset."""
        return World(Replay(history, target))

    def space_of(self, task: SearchTask) -> ListedSpace:
        """The recorded programs of a task."""
        return ListedSpace.around(self.replay.space_of(task), self.replay.records(task))

    def goal_s(self, task: SearchTask) -> float:
        """Seconds of a program that is near the best of the dataset."""
        return NEAR * self.replay.best_s(task)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What a search begins with: records of other targets, and a model."""

    records: Sequence[Record] = ()
    documents: Sequence[tuple[str, str]] = ()
    model: str | None = None

    def history(self, kind: str) -> MemoryHistory:
        """A history that holds it, for one search."""
        history = MemoryHistory(self.records)
        for key, document in self.documents:
            history.keep_workload(key, document)
        if self.model is not None:
            history.keep_champion(kind, self.model)
        return history


NOTHING = Knowledge()


class NearestRecorded(MeasuredElsewhere):
    """Of a space of recorded programs: guests become the recorded ones nearest to them."""

    def guests(self, history: History, judge: Judge | None = None) -> Pool:
        """Those that are recorded."""
        scope = self.scope
        task, space, most = scope.task, scope.space, scope.params.guests
        assert isinstance(task, SearchTask)
        at = {sketch.id: i for i, sketch in enumerate(space.sketches)}
        found = list(guests(task, history, most=most)) if most else []
        pools = [space.pool(at[g.sketch_id], [g.row]) for g in found if g.sketch_id in at]
        return concatenate([space.empty(), *pools]).unique()


def ours(
    world: World,
    task: SearchTask,
    seed: int,
    knowledge: Knowledge = NOTHING,
    batch: int = OURS_BATCH,
) -> int | None:
    """Trials that our policy needs from some knowledge on; None if it does not get there."""
    history, space = knowledge.history(task.target.kind), world.space_of(task)
    scope = Scope(task, seed, PolicyParams(population=1024), space)
    policy = SketchPolicy(scope, champion(history, task.target, space, seed) or XGBModel(seed))
    policy.elsewhere = NearestRecorded(scope)
    goal, done, learnt = world.goal_s(task), 0, set[str]()
    while done < MOST:
        candidates = policy.propose(history, batch)
        if not candidates:
            break
        measured = world.replay.measure(task, candidates)
        for number, one in enumerate(measured, 1):
            if one.latency_s is not None and one.latency_s <= goal:
                return done + number
        history.append(to_records(task, measured, run_id="replay", round=done))
        done += len(measured)
        known = policy.known(history)
        policy.model.update(observations(known, task.workload_key, task.flops, learnt))
        learnt.update(record.record_id for record in known.records)
    return None


def theirs(
    world: World, task: SearchTask, seed: int, batch: int = BATCH, warm_up: int = WARM_UP
) -> int | None:
    """Trials that the original's features, trees and selection need.

    Without evolution: all programs are scored in every round.
    """
    space, goal = world.space_of(task), world.goal_s(task)
    rng = generator(seed, task.workload_key, str(task.target), "ansor replay")
    model = AnsorModel(warm_up=warm_up)
    packs: list[NDArray[np.float32]] = []
    rows: list[Candidate] = []
    for sketch in space.sketches:
        assert isinstance(sketch, ListedSketch)
        packs += list(features(sketch, sketch.listed))
        rows += [Candidate(sketch.id, tuple(map(int, row)), 0.0, "") for row in sketch.listed]
    left, done = np.arange(len(rows)), 0
    while len(left) and done < MOST:
        scores = np.zeros(len(left))
        if model.trained:
            by_stores: dict[int, list[int]] = {}
            for i, at in enumerate(left):
                by_stores.setdefault(len(packs[at]), []).append(i)
            for same in by_stores.values():
                scores[same] = model.predict(np.stack([packs[left[i]] for i in same]), rng)
        else:
            scores = rng.random(len(left))
        chance = max(1, int(AT_RANDOM * batch))
        order = np.argsort(-scores, kind="stable")
        head, tail = order[: batch - chance], order[batch - chance :]
        picks = left[[*head, *rng.permutation(tail)[:chance]]]
        found = world.replay.measure(task, [rows[i] for i in picks])
        latencies = [np.inf if m.latency_s is None else m.latency_s for m in found]
        for number, seconds in enumerate(latencies, 1):
            if seconds <= goal:
                return done + number
        done += len(picks)
        left = np.setdiff1d(left, picks)
        model.learn([packs[i] for i in picks], latencies)
    return None


Strategy = Callable[[World, SearchTask, int], int | None]
STRATEGIES: dict[str, Strategy] = {
    "tilework": ours,
    "ansor": theirs,
    "ansor, early": lambda world, task, seed: theirs(
        world, task, seed, OURS_BATCH, OURS_BATCH - 1
    ),
    "chance": lambda world, task, seed: theirs(world, task, seed, MOST, MOST),
}


def trials_needed(
    world: World, strategy: Strategy, tasks: Iterable[SearchTask], seeds: int
) -> dict[str, list[int]]:
    """Trials until one is within 5 % of the dataset's best, by task."""
    return {
        t.workload_key: [
            strategy(world, t, s) or len(world.replay.records(t)) for s in range(seeds)
        ]
        for t in tasks
    }


def chosen_tasks(world: World, count: int) -> list[SearchTask]:
    """So many of the tasks, evenly by their operations."""
    tasks = sorted(world.replay.tasks, key=lambda t: (t.flops, t.workload_key))
    few = min(count, len(tasks))
    return [tasks[(2 * i + 1) * len(tasks) // (2 * few)] for i in range(few)]


# --- knowledge of other targets ------------------------------------------------------------------


def knowledge_for(
    history: MemoryHistory, target: str, source: str, tasks: Sequence[SearchTask]
) -> Knowledge:
    """All rows of one other target, and a model of all targets but this one.

    The model has seen no row of the tasks, of whatever target.
    """
    held = {t.workload_key for t in tasks}
    keys = history.workload_keys(source)
    records = [r for key in keys for r in history.of(key, source)]
    texts = [(key, text) for key in keys if (text := history.workload(key)) is not None]
    others = [t for t in targets_of(history) if t != target]
    taught = lessons(history, others, keep=lambda key, _: key not in held)
    model = trained([o for lesson in taught for o in lesson.observations])
    return Knowledge(records, texts, model.to_json())


def geomean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(statistics.fmean(math.log(v) for v in values))
