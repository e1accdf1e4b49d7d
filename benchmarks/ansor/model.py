"""The original's cost model: boosted trees over the features of stores, chance before that.

A program's score is the sum over its stores. Its label is its throughput relative to the best of
its task, its weight the same number; a failure has both 0. Every update trains anew on everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WARM_UP = 100
"""The published `AnsorModel.warm_up`."""
MOST_TREES, PATIENCE, STEP = 10_000, 50, 2
"""Rounds of boosting; those without improvement after which it ends, looked at every other one."""
PARAMS = {
    "max_depth": 10,
    "gamma": 0.001,
    "min_child_weight": 0,
    "eta": 0.2,
    "seed": 43,
    "nthread": 1,
    "verbosity": 0,
    "disable_default_eval_metric": 1,
}


@dataclass
class AnsorModel:
    """Scores programs of one task by features, P x S x F.

    Attributes:
        packs: features of what was measured, S x F each.
        latency_s: what came of it, inf for failures.
        warm_up: the trees have a say when more than so many programs are measured.
    """

    packs: list[NDArray[np.float32]] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    warm_up: int = WARM_UP
    _booster: Any = None

    @property
    def trained(self) -> bool:
        """Whether there is more than chance."""
        return self._booster is not None and len(self.packs) > self.warm_up

    @property
    def model_id(self) -> str:
        """Kept in the records."""
        return f"ansor-{len(self.packs)}" if self.trained else "chance"

    def predict(self, packs: NDArray[np.float32], rng: np.random.Generator) -> Floats:
        """Scores of P programs: higher is faster."""
        if not self.trained:
            return rng.random(len(packs))
        count, stores, columns = packs.shape
        rows = self._booster.inplace_predict(packs.reshape(count * stores, columns))
        score: Floats = rows.reshape(count, stores).sum(axis=1, dtype=np.float64)
        return score

    def learn(self, packs: list[NDArray[np.float32]], latency_s: list[float]) -> None:
        """Add measured programs, and train on all of them."""
        self.packs += packs
        self.latency_s += latency_s
        latency = np.array(self.latency_s)
        if len(latency) <= self.warm_up or not np.isfinite(latency).any():
            return
        self._booster = train(self.packs, latency.min() / latency)


def train(packs: list[NDArray[np.float32]], labels: Floats) -> Any:
    """Trees for packs of rows whose predictions sum up to the labels."""
    import xgboost

    sizes = np.array([len(pack) for pack in packs])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    matrix = xgboost.DMatrix(np.concatenate(packs), nthread=1)
    weights = np.repeat(labels, sizes)

    def objective(predicted: Any, _: Any) -> tuple[Any, Any]:
        error = np.add.reduceat(predicted.ravel(), starts) - labels
        return np.repeat(error * labels, sizes), weights

    booster = xgboost.Booster(PARAMS, [matrix])
    best, since = np.inf, 0
    for number in range(MOST_TREES):
        booster.update(matrix, number, fobj=objective)
        if number % STEP:
            continue
        sums = np.add.reduceat(booster.predict(matrix, output_margin=True).ravel(), starts)
        error = float(np.sqrt(np.average((sums - labels) ** 2, weights=sizes)))
        if error < best:
            best, since = error, 0
        else:
            since += STEP
        if since >= PATIENCE:
            break
    return booster
