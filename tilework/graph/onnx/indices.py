"""Indices that are known at import."""

from __future__ import annotations

import numpy as np

from tilework.graph.onnx.context import Unsupported


def indices_in_range(indices: np.ndarray, extent: int) -> np.ndarray:
    """Constant indices counted from the front.

    Raises:
        Unsupported: one is out of range.
    """
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise Unsupported(
            f"indices from {indices.min()} to {indices.max()} for a dimension of {extent}"
        )
    wide = indices.astype(np.int64)  # a narrow type may not reach the extent
    return np.where(wide < 0, wide + extent, wide)
