"""A fixed piece of work for one core of this machine."""

from __future__ import annotations

import numpy as np

from tilework.runtime.samples import time_calls


def host_calibration_s() -> float:
    """Time of 100 products of two 64 x 64 float32 matrices: the least of 7 runs.

    It fits the first-level cache and runs on one thread, so that it moves with the core's
    clock and with whatever shares the core, and with nothing of ours.
    """
    a = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    out = np.empty_like(a)

    def product() -> None:
        np.matmul(a, a, out=out)

    product()
    return min(time_calls(product, 100) for _ in range(7))
