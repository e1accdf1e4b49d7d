"""What a cost model sees and what it promises.

A model ranks candidates of one task. It never generates code and never measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.errors import TileworkError
from tilework.frozen import frozen
from tilework.model.draft import Draft

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class CostModelError(TileworkError):
    """A cost model that cannot be loaded, or that was trained on other features."""


class Scorable(Protocol):
    """The part of a sketch that a cost model reads."""

    @property
    def id(self) -> int:
        """Position of the sketch in its space."""

    @property
    def target(self) -> Any:
        """The machine that it is for: `tilework.target.Target`."""


def _positive(seconds: Floats) -> Floats:
    """Seconds that logarithms are defined for, whatever a draft says."""
    numbers = np.nan_to_num(np.asarray(seconds, dtype=np.float64), nan=np.inf, posinf=1e10)
    return np.maximum(numbers, 1e-12)


@frozen(eq=False)
class Batch:
    """Candidates of one sketch of one task.

    Attributes:
        workload_key: the task's structural identity.
        flops: floating-point operations of the task.
        sketch: the sketch whose decisions ``rows`` holds.
        rows: int32, P x D.
        draft: the analytic model of the machine that the sketch is for.
        reference_s: drafted seconds that count as relative throughput 1 where a model has seen no
            candidate of the task; the fastest of the batch if None.
        device: on which its candidates were or will be measured; empty where that is one for all.
    """

    workload_key: str
    flops: float
    sketch: Scorable
    rows: Rows
    draft: Draft
    reference_s: float | None = None
    device: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, where: NDArray[np.intp]) -> Batch:
        """Some of the candidates; what was computed of them is kept."""
        batch = replace(self, rows=self.rows[where])
        for name in _COMPUTED & self.__dict__.keys():
            batch.__dict__[name] = self.__dict__[name][where]
        return batch

    def referred(self, reference_s: float) -> Batch:
        """The same with another `reference_s`; what was computed is kept."""
        batch = replace(self, reference_s=reference_s)
        batch.__dict__.update({n: self.__dict__[n] for n in _COMPUTED & self.__dict__.keys()})
        return batch

    @cached_property
    def draft_s(self) -> Floats:
        """Seconds predicted by the analytic model, P values; always positive."""
        return _positive(self.draft.seconds(self.sketch, self.rows))

    @cached_property
    def block_s(self) -> Floats:
        """The same of each of the sketch's blocks, P x S."""
        return _positive(self.draft.block_seconds(self.sketch, self.rows))

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """The sketch's features of every row: P x S x F."""
        return np.asarray(self.draft.features(self.sketch, self.rows), dtype=np.float32)


_COMPUTED = {"draft_s", "block_s", "features"}


@frozen(eq=False)
class Observation:
    """Measured candidates of one sketch.

    Attributes:
        batch: the candidates.
        latency_s: seconds of each row of the batch; inf says that it failed.
        order: position of each row among the task's measurements, in the order they were made;
            the order of observing them if None.
    """

    batch: Batch
    latency_s: Floats
    order: NDArray[np.intp] | None = None


class CostModel(Protocol):
    """Ranks candidates; learns from observations."""

    @property
    def model_id(self) -> str:
        """Names the model and what it was trained on; equal ids give equal predictions."""

    @property
    def trained(self) -> bool:
        """Whether `predict` knows more than the draft model or chance."""

    def predict(self, batch: Batch) -> Floats:
        """Scores, P finite values: higher is faster; comparable within one task only."""

    def update(self, observations: Sequence[Observation]) -> None:
        """Add observations to what is known and learn from all of it."""


class DraftModel:
    """Ranks by the analytic model alone; needs no observation and ignores them."""

    model_id = "draft"
    trained = False

    def predict(self, batch: Batch) -> Floats:
        """Minus the logarithm of the predicted seconds."""
        return -np.log(batch.draft_s)

    def update(self, observations: Sequence[Observation]) -> None:
        """Nothing to learn."""
