"""The analytic draft model of CPUs: predicted seconds from hardware parameters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features import FEATURE_NAMES, feature_matrix, terms

if TYPE_CHECKING:
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
        return feature_matrix(terms(sketch, rows))

    def seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        """Predicted run time of every row in seconds: the sum over the sketch's nests."""
        return np.sum([t.seconds for t in terms(sketch, rows)], axis=0)


DRAFT = CpuDraft()
