"""The analytic draft model: predicted seconds from hardware parameters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilework.features import terms

if TYPE_CHECKING:
    from tilework.space.sketch import Rows, Sketch


def draft_seconds(sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
    """Predicted run time of every row in seconds: the sum over the sketch's nests.

    Each nest costs the slower of its instructions (multiply-add ports, load ports, latency,
    register spills, loop overhead) and its traffic into L1, L2 and L3, plus a quarter of what the
    slower hides, shared by the threads that its parallel loops can occupy.
    """
    return np.sum([t.seconds for t in terms(sketch, rows)], axis=0)
