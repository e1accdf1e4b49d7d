"""What models are judged on, trained on, and how they score: the parts of `transfer.py`.

A model is trained for a fold: on other targets' records of workloads that the fold's test networks
do not call, and, where it may, on some rows a task of the held-out target. Whatever has the shape
of a test workload (other precisions, other epilogues) is left out as well, on every target.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage import RecordStore
from tilework.model import Observation, XGBModel, XGBParams
from tilework.model.judge import Case, Fold, folds, weights
from tilework.search.corpus import Lesson, lessons
from tilework.travel.likeness import shape_of

ALL = 10**9
OWN_ROWS = 64
"""Rows a task of the new target, where some may be known."""


def without_this_machine(folder: Path) -> None:
    """Let no measured number of this host take part: the draft knows targets by its table alone.

    Records are judged the same wherever that is done. To be called before a draft is asked.
    """
    os.environ["XDG_CACHE_HOME"] = str(folder)


@dataclass(frozen=True, eq=False)
class Subject:
    """One workload on one target: what was measured, ready to be learnt from or judged on.

    Attributes:
        lesson: all of its rows; features are computed once.
        latency_s: of every row, in the order of the lesson's observations.
        draft_s: the analytic draft's word of every row.
        like: equal for workloads of one shape, whatever their type and epilogue.
    """

    lesson: Lesson
    latency_s: NDArray[np.float64]
    draft_s: NDArray[np.float64]
    like: tuple[object, ...]

    @classmethod
    def of(cls, lesson: Lesson) -> Subject:
        """A lesson with its features and the draft's seconds computed."""
        for observation in lesson.observations:
            _ = observation.batch.features, observation.batch.block_s
        latency = np.concatenate([o.latency_s for o in lesson.observations])
        draft = np.concatenate([o.batch.draft_s for o in lesson.observations])
        shape, best = shape_of(lesson.document), float(draft.min())
        like = tuple(shape)[:3] if shape else (lesson.workload_key,)
        judged = tuple(replace(o, batch=o.batch.referred(best)) for o in lesson.observations)
        return cls(replace(lesson, observations=judged), latency, draft, like)

    @property
    def pair(self) -> tuple[str, str]:
        """Workload key and target."""
        return self.lesson.workload_key, str(self.lesson.target)

    def some(self, count: int, seed: int) -> list[Observation]:
        """Observations of so many rows, drawn at random; always the same for a seed."""
        name = zlib.crc32(repr(self.pair).encode())
        drawn = np.random.default_rng([seed, name]).permutation(len(self.latency_s))[:count]
        found, start = [], 0
        for o in self.lesson.observations:
            where = np.sort(drawn[(drawn >= start) & (drawn < start + len(o.batch))]) - start
            start += len(o.batch)
            if len(where):
                order = None if o.order is None else o.order[where]
                found.append(Observation(o.batch.take(where), o.latency_s[where], order))
        return found


def read_subjects(path: Path) -> list[Subject]:
    """Everything that a dataset holds, target by target.

    Raises:
        StoreError: there is no such folder.
    """
    store = RecordStore(path, must_exist=True)
    pairs = store.keys()
    found = lessons(store, sorted({target for target, _ in pairs}), most=ALL)
    return [Subject.of(lesson) for lesson in found]


# --- rankers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranker:
    """A way to rank programs of a target.

    Attributes:
        name: in tables.
        others: whether it learns from other targets.
        own: rows a task of the held-out target that it learns from, of networks not judged.
        params: of the model; None: the analytic draft.
        onward: name of an earlier ranker whose model it goes on from, as a session does that
            begins with a stored model.
    """

    name: str
    others: bool = False
    own: int = 0
    params: XGBParams | None = None
    onward: str = ""


@dataclass(frozen=True, eq=False)
class Trained:
    """A model for a fold, and how long it took to train; without a model, the draft."""

    model: XGBModel | None = None
    records: int = 0
    seconds: float = 0.0

    def score(self, subject: Subject) -> NDArray[np.float64]:
        """Of every row of a subject."""
        if self.model is None:
            return -np.log(subject.draft_s)
        found = [self.model.predict(o.batch) for o in subject.lesson.observations]
        return np.concatenate(found)


def train(
    ranker: Ranker,
    others: Iterable[Subject],
    own: Iterable[Subject],
    seed: int,
    start: XGBModel | None = None,
) -> Trained:
    """Train one ranker.

    Args:
        ranker: which.
        others: subjects of other targets that may be learnt from.
        own: subjects of the held-out target of which some rows may be.
        seed: of the model, and of the choice of rows.
        start: the model that it goes on from.
    """
    if ranker.params is None:
        return Trained()
    observed = [o for s in others if ranker.others for o in s.lesson.observations]
    observed += [o for s in own if ranker.own for o in s.some(ranker.own, seed)]
    began = time.process_time()
    if start is None:
        model = XGBModel(seed, ranker.params)
    else:
        model = XGBModel.from_json(start.to_json(), seed, ranker.params)
    for observation in observed:
        model.observe(observation)
    model.fit()
    spent = time.process_time() - began
    return Trained(model, sum(len(o.batch) for o in observed), spent)


# --- judging -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """Cases of one seed, and what training took.

    Attributes:
        cases: every test workload on its target, once for each group of test networks.
        training: by ranker, records and seconds of one core, of each model.
    """

    cases: list[Case] = field(default_factory=list)
    training: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


def judge(
    subjects: Sequence[Subject],
    planned: Sequence[Fold],
    rankers: Sequence[Ranker],
    weight: Callable[[Fold, str], float],
    seed: int,
) -> Judged:
    """Train and score all rankers on all folds.

    Args:
        subjects: the dataset.
        planned: what is held out.
        rankers: who is judged.
        weight: of a test workload of a fold.
        seed: of the models, and of what is drawn.
    """
    by_pair = {s.pair: s for s in subjects}
    out = Judged()
    for fold in planned:
        test = [by_pair[key, fold.target] for key in fold.test]
        held = {s.like for s in test}
        others = [s for s in map(by_pair.__getitem__, fold.train) if s.like not in held]
        own = [s for s in (by_pair[key, fold.target] for key in fold.own) if s.like not in held]
        models: dict[str, Trained] = {}
        for ranker in rankers:
            start = models[ranker.onward].model if ranker.onward else None
            models[ranker.name] = train(ranker, others, own, seed, start)
        for name, model in models.items():
            out.training.setdefault(name, []).append((model.records, model.seconds))
        for subject in test:
            scores = {name: model.score(subject) for name, model in models.items()}
            key = subject.lesson.workload_key
            out.cases.append(Case(key, fold.target, weight(fold, key), subject.latency_s, scores))
    return out


def network_folds(
    subjects: Sequence[Subject],
    calls: Mapping[str, Mapping[str, int]],
    groups: Sequence[Collection[str]],
    targets: Collection[str],
) -> list[Fold]:
    """Every group of test networks with every target held out, among these targets."""
    present = [s.pair for s in subjects if s.pair[1] in targets]
    return folds(calls, present, groups)


def called(calls: Mapping[str, Mapping[str, int]]) -> Callable[[Fold, str], float]:
    """How often a fold's test networks run a workload."""
    return lambda fold, key: weights(calls, fold.networks)[key]


def across(
    subjects: Sequence[Subject],
    calls: Mapping[str, Mapping[str, int]],
    groups: Sequence[Collection[str]],
    here: Collection[str],
    there: Collection[str],
) -> list[Fold]:
    """Every target of ``here``, learning from all targets of ``there``, test networks held out.

    Workloads that no network calls are held out one by one.
    """
    away = [s.pair for s in subjects if s.pair[1] in there]
    found = []
    for target in sorted(here):
        own = [s.pair for s in subjects if s.pair[1] == target]
        named = {key for network in calls.values() for key in network}
        use: dict[str, Collection[str]] = dict(calls)
        parts: list[Collection[str]] = list(groups)
        if not all(key in named for key, _ in own):
            use = {f"layer {i}": [key] for i, (key, _) in enumerate(own)}
            parts = [(name,) for name in use]
        found += folds(use, [*own, *away], parts, [target])
    return found
