"""The cost model of the plain Ansor policy, for comparisons: chance first, then trees."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.model.base import Batch, Floats, Observation, RandomModel
from tilework.model.xgb import XGBModel, XGBParams

WARM_UP = 100
"""Observations before the trees have a say."""

PLAIN = XGBParams(
    trees=200,
    onward=200,
    max_depth=10,
    eta=0.2,
    max_bin=256,
    subsample=1.0,
    least=0.0,
    objective="throughput",
    machine=False,
    min_records=1,
)
"""The published settings; 200 trees stand for the early stopping on the training error."""


class PlainModel:
    """Uniform random scores until `WARM_UP` candidates are observed, then boosted trees."""

    trained = True

    def __init__(self, seed: int = 0) -> None:
        self._chance = RandomModel(seed)
        self._trees = XGBModel(seed, PLAIN)

    @property
    def model_id(self) -> str:
        """Of the model that `predict` asks."""
        return self._model.model_id

    @property
    def _model(self) -> RandomModel | XGBModel:
        ready = self._trees.num_observations >= WARM_UP and self._trees.trained
        return self._trees if ready else self._chance

    def predict(self, batch: Batch) -> Floats:
        """Random scores, or predicted throughput relative to the task's best."""
        return self._model.predict(batch)

    def update(self, observations: Sequence[Observation]) -> None:
        """See `XGBModel.update`."""
        self._trees.update(observations)
