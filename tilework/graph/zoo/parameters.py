"""Where the numbers of a network's parameters come from: drawn at random, or stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tilework.overriding import override


class Parameters(Protocol):
    """A source of float32 arrays; successive calls give different ones."""

    def normal(self, shape: Sequence[int], spread: float, mean: float = 0.0) -> np.ndarray:
        """Normally distributed numbers with standard deviation ``spread``."""
        ...

    def uniform(self, shape: Sequence[int], low: float, high: float) -> np.ndarray:
        """Numbers between ``low`` and ``high``."""
        ...


class Drawn(Parameters):
    """Numbers from a generator, the same for the same seed and order of calls."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def normal(self, shape: Sequence[int], spread: float, mean: float = 0.0) -> np.ndarray:
        """See `Parameters`; matrices and larger are drawn in single precision, which is faster."""
        if len(shape) == 1:
            return self._rng.normal(mean, spread, shape).astype(np.float32)
        drawn = self._rng.standard_normal(tuple(shape), dtype=np.float32)
        drawn *= np.float32(spread)
        if mean:
            drawn += np.float32(mean)
        return drawn

    @override
    def uniform(self, shape: Sequence[int], low: float, high: float) -> np.ndarray:
        return self._rng.uniform(low, high, shape).astype(np.float32)


class Even(Parameters):
    """One positive number per array, seen in any shape: no array is ever written.

    The numbers differ from array to array, so that no two of them are taken for the same.
    """

    def __init__(self) -> None:
        self._count = 0

    @override
    def normal(self, shape: Sequence[int], spread: float, mean: float = 0.0) -> np.ndarray:
        self._count += 1
        return np.broadcast_to(np.float32(1 + self._count / 1024), tuple(shape))

    @override
    def uniform(self, shape: Sequence[int], low: float, high: float) -> np.ndarray:
        return self.normal(shape, high - low)
