"""The draft's own numbers of a machine, fitted to what was measured on it.

The numbers are multiplied by factors near 1. Predicted seconds are linear in the logarithms of the
factors to first order; least squares of the error of ``log(seconds)``, less each lesson's mean,
weighted by throughput, with a prior that pulls every factor towards 1 (a ridge), give a step; of
a few lengths of it the best is taken by the true draft. What is fitted has to order the programs
of lessons that it was not fitted to better than the draft does, or nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Floats, Observation
from tilework.model.draft import Draft
from tilework.model.metrics import pairwise_accuracy

LESSONS = 16
"""Lessons that are looked at: each factor costs a pass of the draft over all of them."""
PRIOR = 0.03
"""Weight of the squared logarithm of a factor beside the mean squared error of a lesson."""
_STEP = 0.1
_LENGTHS = (1.0, 0.5, 0.25)
_FEELS = 1e-3
_LARGEST = 1.0
"""A factor lies within e times and a part of e."""


class Taught(Protocol):
    """The part of a lesson that is fitted to."""

    @property
    def observations(self) -> Sequence[Observation]:
        """Measured rows of one workload, target and device."""


def fit_draft(lessons: Iterable[Taught], draft: Draft) -> dict[str, float]:
    """Factors for `Draft.adjusted`, by parameter; empty where fitting does not help.

    Args:
        lessons: all of one target and device.
        draft: the draft room of their kind, unadjusted.
    """
    ran = [lesson for lesson in lessons if _ran(lesson)]
    every = [ran[i * len(ran) // LESSONS] for i in range(LESSONS)] if len(ran) > LESSONS else ran
    if len(every) < 4:
        return {}
    cases = [_Case(lesson) for lesson in every]
    names = _felt(cases[:4], draft)
    tables = [case.slopes(draft, names) for case in cases]
    parts = range(0, len(cases), 2), range(1, len(cases), 2)
    for fitted, judged in (parts, parts[::-1]):
        factors = _fitted(cases, tables, fitted, names, draft)
        if not _better([cases[i] for i in judged], draft, factors):
            return {}
    return _fitted(cases, tables, range(len(cases)), names, draft)


class _Case:
    """Programs of a lesson that ran, and how long they took."""

    def __init__(self, lesson: Taught) -> None:
        self.observations = []
        for o in lesson.observations:
            where = np.flatnonzero(np.isfinite(o.latency_s))
            if len(where):
                self.observations.append(replace(o, batch=o.batch.take(where)))
        latency = [o.latency_s[np.isfinite(o.latency_s)] for o in lesson.observations]
        self.latency_s: Floats = np.concatenate(latency)
        weight = self.latency_s.min() / self.latency_s
        self.weight: Floats = weight / weight.sum()

    def log_seconds(self, draft: Draft) -> Floats:
        parts = [draft.seconds(o.batch.sketch, o.batch.rows) for o in self.observations]
        return np.log(np.concatenate(parts))

    def error(self, draft: Draft) -> Floats:
        """Measured over drafted, as logarithms, less their mean."""
        error = np.log(self.latency_s) - self.log_seconds(draft)
        centred: Floats = error - self.weight @ error
        return centred

    def slopes(self, draft: Draft, names: Sequence[str]) -> NDArray[np.float64]:
        """How the logarithm of seconds grows with that of each factor, less its mean."""
        base = self.log_seconds(draft)
        factor = float(np.exp(_STEP))
        found = [(self.log_seconds(draft.adjusted({n: factor})) - base) / _STEP for n in names]
        table = np.stack(found, axis=1) if found else np.zeros((len(base), 0))
        out: NDArray[np.float64] = table - self.weight @ table
        return out


def _ran(lesson: Taught) -> bool:
    return sum(int(np.isfinite(o.latency_s).sum()) for o in lesson.observations) >= 8


def _felt(cases: Sequence[_Case], draft: Draft) -> list[str]:
    """Parameters that make a difference to which program is fast."""
    names = draft.parameters
    tables = [case.slopes(draft, names) for case in cases]
    size = np.max([np.abs(table).mean(axis=0) for table in tables], axis=0)
    return [name for name, slope in zip(names, size, strict=True) if slope > _FEELS]


def _fitted(
    cases: Sequence[_Case],
    tables: Sequence[NDArray[np.float64]],
    chosen: Iterable[int],
    names: Sequence[str],
    draft: Draft,
) -> dict[str, float]:
    """The best of a few lengths of the step that least squares give."""
    picked = list(chosen)
    square = PRIOR * np.eye(len(names))
    right = np.zeros(len(names))
    for i in picked:
        weighted = cases[i].weight[:, None] * tables[i] / len(picked)
        square += tables[i].T @ weighted
        right += weighted.T @ cases[i].error(draft)
    step = np.clip(np.linalg.solve(square, right), -_LARGEST, _LARGEST)
    best, found = _loss([cases[i] for i in picked], draft), dict[str, float]()
    for length in _LENGTHS:
        factors = dict(zip(names, np.exp(length * step).tolist(), strict=True))
        loss = _loss([cases[i] for i in picked], draft.adjusted(factors))
        loss += PRIOR * float((length * step) @ (length * step))
        if loss < best:
            best, found = loss, factors
    return found


def _loss(cases: Sequence[_Case], draft: Draft) -> float:
    return float(np.mean([case.weight @ case.error(draft) ** 2 for case in cases]))


def _better(cases: Sequence[_Case], draft: Draft, factors: Mapping[str, float]) -> bool:
    if not factors:
        return False

    def right(by: Draft) -> float:
        return float(
            np.mean([pairwise_accuracy(-case.log_seconds(by), case.latency_s) for case in cases])
        )

    return right(draft.adjusted(factors)) > right(draft)
