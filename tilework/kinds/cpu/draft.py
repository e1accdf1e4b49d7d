"""The analytic draft model of CPUs: predicted seconds from hardware parameters alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.matrix import FEATURE_NAMES, block_costs, feature_matrix
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch


class CpuDraft:
    """`tilework.model.draft.Draft` for CPUs.

    Each nest costs the slower of its instructions (multiply-add ports, load ports, latency,
    register spills, loop overhead) and its traffic into L1, L2 and L3, plus a quarter of what the
    slower hides, shared by the threads that its parallel loops can occupy.
    """

    names: tuple[str, ...] = FEATURE_NAMES

    def features(self, sketch: Sketch, rows: Rows) -> NDArray[np.float32]:
        """Feature matrix (P, S, F): one row per candidate and block."""
        return feature_matrix(block_costs(sketch, rows))

    def seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        """Predicted run time of every row in seconds: the sum over the sketch's nests."""
        return np.sum([t.seconds for t in block_costs(sketch, rows)], axis=0)


DRAFT = CpuDraft()
