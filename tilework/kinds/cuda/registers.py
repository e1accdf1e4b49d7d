"""Registers that a kernel's threads will take, as learnt from compiled kernels.

Counting what a thread holds tells half of it: compilers keep addresses, load ahead, and share
common parts. So boosted trees correct the count. They were learnt from the cubins of random
schedules (`benchmarks.registers.train`) and lie beside this module as plain numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen

FORMAT = "cuda-registers-1"
FILE = Path(__file__).with_name("registers.json")
INPUTS = (
    "counted", "accumulators", "fragments", "in_flight", "batch", "expanded", "copies", "threads",
    "most", "fetch_rounds_0", "fetch_rounds_1", "fetch_width_0", "fetch_width_1",
    "fragment_width_0", "fragment_width_1", "store_width", "fetches", "terms", "bodies", "virtual",
    "staged", "reads", "finish_reads", "guards", "dimensions", "calls", "hmma", "form", "arch",
)  # fmt: skip
"""What the trees look at; see `tilework.kinds.cuda.features.demand`."""
_LEAST = 8.0
_TOGETHER = 256


class RegistersFormatError(ValueError):
    """A file of learnt registers is damaged, or of another version."""


@frozen(eq=False)
class Trees:
    """Boosted regression trees, complete binary ones of equal depth.

    Attributes:
        features: number of the input that each inner node asks for, T x (2^depth - 1).
        thresholds: an input below it goes left, T x (2^depth - 1).
        leaves: what each tree adds, T x 2^depth.
        base: what is there without any tree.
    """

    features: NDArray[np.intp]
    thresholds: NDArray[np.float32]
    leaves: NDArray[np.float32]
    base: float

    def __call__(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Predictions for P x F inputs."""
        leaves = [
            self._few(inputs[first : first + _TOGETHER])
            for first in range(0, len(inputs), _TOGETHER)
        ]
        return np.concatenate(leaves) if leaves else np.zeros(0)

    def _few(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Predictions for so few rows that what is looked up stays in the processor's caches."""
        trees, inner = self.features.shape
        number = np.arange(trees, dtype=np.int32)
        features, thresholds = self.features.astype(np.int32).ravel(), self.thresholds.ravel()
        rows = (np.arange(len(inputs), dtype=np.int32) * inputs.shape[1])[:, None]
        values = np.ascontiguousarray(inputs).ravel()
        node = np.zeros((len(inputs), trees), np.int32)
        for _ in range((inner + 1).bit_length() - 1):
            at = node + number * inner
            right = values.take(features.take(at) + rows) >= thresholds.take(at)
            node *= 2
            node += 1
            node += right
        node += number * (inner + 1) - inner
        return np.asarray(self.base + self.leaves.ravel().take(node).sum(axis=1), np.float64)


def demand(inputs: Mapping[str, Any], count: int) -> NDArray[np.float64]:
    """Registers that threads would take if there were no bound, for P rows.

    Args:
        inputs: numbers by the names in `INPUTS`, each of P rows or one for all.
        count: P.
    """
    counted = np.maximum(np.asarray(inputs["counted"], np.float64), _LEAST)
    trees = shipped()
    if trees is None:
        return counted * np.ones(count)
    return counted * np.exp2(trees(matrix(inputs, count)))


def matrix(inputs: Mapping[str, Any], count: int) -> NDArray[np.float32]:
    """The inputs as P x F."""
    out = np.empty((count, len(INPUTS)), np.float32)
    for c, name in enumerate(INPUTS):
        out[:, c] = inputs[name]
    return out


@lru_cache(maxsize=1)
def shipped() -> Trees | None:
    """The trees beside this module; None if there are none, or they are of other inputs."""
    try:
        return from_json(FILE.read_text(encoding="utf-8"))
    except OSError:
        return None


def from_json(text: str) -> Trees:
    """The trees that `to_json` wrote.

    Raises:
        RegistersFormatError: it is none.
    """
    try:
        document = json.loads(text)
        if document["format"] != FORMAT or tuple(document["inputs"]) != INPUTS:
            raise RegistersFormatError(
                "registers were learnt for another version: learn them again"
            )
        features = np.array(document["features"], np.intp)
        thresholds = np.array(document["thresholds"], np.float32)
        leaves = np.array(document["leaves"], np.float32)
        base = float(document["base"])
    except RegistersFormatError:
        raise
    except (ValueError, TypeError, KeyError) as e:
        raise RegistersFormatError(f"learnt registers cannot be read ({e})") from e
    inner = features.shape[1] if features.ndim == 2 else 0
    good = inner > 0 and (inner + 1) & inner == 0 and thresholds.shape == features.shape
    good = good and leaves.shape == (len(features), inner + 1)
    if not good or features.min() < 0 or features.max() >= len(INPUTS):
        raise RegistersFormatError("learnt registers make no sense")
    return Trees(features, thresholds, leaves, base)


def to_json(trees: Trees, note: str) -> str:
    """Trees as a document, with a line on where they come from."""

    def rows(values: NDArray[Any]) -> Sequence[Sequence[float]]:
        return [[float(f"{v:.6g}") for v in row] for row in values.tolist()]

    document = {
        "format": FORMAT,
        "note": note,
        "inputs": list(INPUTS),
        "base": trees.base,
        "features": trees.features.tolist(),
        "thresholds": rows(trees.thresholds),
        "leaves": rows(trees.leaves),
    }
    return json.dumps(document, separators=(",", ":")) + "\n"
