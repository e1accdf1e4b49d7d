"""The search on the recorded dataset: what strategies need, and how well models rank."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from storage import RecordStore
from tilework.model import XGBModel
from tilework.model.metrics import peak_score
from tilework.model.plain import PlainModel
from tilework.search import PolicyParams, SketchPolicy
from tilework.search.known import observations, read_known
from tilework.search.options import PLAIN_POLICY
from tilework.search.replay import Replay, replay_search
from tilework.task import SearchTask

DATASET = Path(__file__).resolve().parent.parent / "tests" / "data" / "replay"
MOST = 600
"""Trials after which a search counts as having needed so many."""
NEAR = 1.05


def open_replay(path: Path = DATASET) -> Replay:
    """The dataset, with the target that it was recorded for."""
    store = RecordStore(path)
    return Replay(store, str(store.read()[0].target))


def learned_from(replay: Replay, tasks: list[SearchTask], seed: int = 0) -> XGBModel:
    """A model of all records of the tasks."""
    model = XGBModel(seed)
    for task in tasks:
        known = read_known(replay.space_of(task), replay.records(task))
        for found in observations(known, task.workload_key, task.flops):
            model.observe(found)
    model.fit()
    return model


def ranking(replay: Replay) -> dict[str, dict[str, float]]:
    """Peak-score@5 on each task of the draft, and of a model that has seen all other tasks."""
    table = {}
    for task in replay.tasks:
        known = read_known(replay.space_of(task), replay.records(task))
        model = learned_from(replay, [t for t in replay.tasks if t is not task])
        score = np.zeros(len(known))
        for found in observations(known, task.workload_key, task.flops):
            assert found.order is not None
            batch = replace(found.batch, reference_s=float(known.draft_s.min()))
            score[found.order] = model.predict(batch)
        table[task.desc] = {
            "draft": peak_score(-known.draft_s, known.latency_s),
            "learned": peak_score(score, known.latency_s),
        }
    return table


def _ours(replay: Replay, task: SearchTask, seed: int) -> SketchPolicy:
    return SketchPolicy(
        task, XGBModel(seed), seed=seed, params=PolicyParams(population=1024),
        space=replay.space_of(task),
    )  # fmt: skip


def _warm(replay: Replay, task: SearchTask, seed: int) -> SketchPolicy:
    policy = _ours(replay, task, seed)
    policy.model = learned_from(replay, [t for t in replay.tasks if t is not task], seed)
    return policy


def _plain(replay: Replay, task: SearchTask, seed: int) -> SketchPolicy:
    return SketchPolicy(
        task, PlainModel(seed), seed=seed, params=replace(PLAIN_POLICY, population=1024),
        space=replay.space_of(task),
    )  # fmt: skip


STRATEGIES: dict[str, Callable[[Replay, SearchTask, int], SketchPolicy]] = {
    "tilework": _ours, "after other networks": _warm, "plain Ansor policy": _plain,
}  # fmt: skip


def trials_needed(
    replay: Replay, strategy: str, seeds: int = 3, batch: int = 16
) -> dict[str, float]:
    """By task, the median number of trials until one is within 5 % of the dataset's best."""
    found = {}
    for task in replay.tasks:
        limit = NEAR * replay.best_s(task)
        needed = []
        for seed in range(seeds):
            policy = STRATEGIES[strategy](replay, task, seed)
            course = replay_search(replay, task, policy, trials=MOST, batch=batch, until_s=limit)
            needed.append(course.trials_to(limit) or MOST)
        found[task.desc] = statistics.median(needed)
    return found


def geomean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(statistics.fmean(math.log(v) for v in values))
