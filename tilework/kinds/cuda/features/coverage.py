"""How much of each loop a run of consecutive points of a flattened nest covers."""

from __future__ import annotations

import numpy as np

from tilework.kinds.cuda.features.lanes import Floats


def coverage(extents: list[Floats], points: Floats) -> list[Floats]:
    """Iterations of each loop, outermost first, that ``points`` neighbours have among them."""
    out: list[Floats] = []
    left = np.maximum(points, 1.0)
    for extent in reversed(extents):
        covered = np.minimum(np.maximum(extent, 1.0), left)
        out.append(covered)
        left = np.ceil(left / np.maximum(extent, 1.0))
    return out[::-1]
