"""The analytic draft model of GPUs: predicted seconds from numbers of the device alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.features.constants import CONSTANTS
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.matrix import FEATURE_NAMES, feature_matrix
from tilework.kinds.cuda.features.population import costs
from tilework.kinds.cuda.features.terms import TERMS, combined
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch


@dataclass(frozen=True, eq=False)
class Terms:
    """Predicted seconds of P rows, by what their S kernels wait for.

    Attributes:
        parts: by name (`TERMS`), P x S.
    """

    parts: Mapping[str, Floats]

    def kernels(self, factors: Mapping[str, float] | None = None) -> Floats:
        """Seconds of each kernel, P x S; each term is multiplied by its factor, 1 by default."""
        scaled = {n: p * (factors or {}).get(n, 1.0) for n, p in self.parts.items()}
        return combined(scaled, CONSTANTS)

    def total(self, factors: Mapping[str, float] | None = None) -> Floats:
        """Seconds of each row: its kernels run one after another."""
        return np.asarray(self.kernels(factors).sum(axis=1))

    def bound(self) -> list[list[str]]:
        """The slowest term of each row's kernels, by name."""
        names = [n for n in TERMS if n != "launch"]
        slowest = np.argmax(np.stack([self.parts[n] for n in names]), axis=0)
        return [[names[i] for i in row] for row in slowest]


def terms(
    sketch: Sketch, rows: Rows, registers: Floats | None = None, spills: Floats | None = None
) -> Terms:
    """Predicted seconds term by term.

    Args:
        sketch: whose kernels.
        rows: P rows.
        registers: of a thread of each kernel (P x S), where they are known from its cubin.
        spills: registers of a thread that did not fit (P x S), where they are known.
    """
    found = costs(sketch, rows, registers, spills)
    parts: dict[str, Floats] = {}
    for name in TERMS:
        pieces = [np.stack([c.kernel.parts[name] for c in some], axis=1) for some in found]
        parts[name] = np.concatenate(pieces)
    return Terms(parts)


class CudaDraft:
    """`tilework.model.draft.Draft` for GPUs.

    A kernel takes as long as the slowest of: multiply-adds, wavefronts of shared memory, the
    first-level and the second-level cache, instructions to issue, latencies that the resident
    warps do not hide, and memory; plus a share of the others, plus a constant for its launch.
    """

    names: tuple[str, ...] = FEATURE_NAMES

    def features(self, sketch: Sketch, rows: Rows) -> NDArray[np.float32]:
        """Feature matrix (P, S, F): one row per candidate and kernel."""
        return np.concatenate([feature_matrix(some) for some in costs(sketch, rows)])

    def seconds(
        self, sketch: Sketch, rows: Rows, registers: Floats | None = None
    ) -> NDArray[np.float64]:
        """Predicted run time of every row in seconds: the sum over the sketch's kernels."""
        found = costs(sketch, rows, registers)
        return np.concatenate([np.sum([c.seconds for c in some], axis=0) for some in found])


DRAFT = CudaDraft()
