"""Correct kernels: the same numbers in every order, with and without checks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.emulate.kernels import MATMUL
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated

pytestmark = pytest.mark.usefixtures("needs_compiler")


def aligned(shape, dtype="float32", fill=None):
    """An array that begins at a multiple of 256 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 256, np.uint8)
    start = -raw.ctypes.data % 256
    out = raw[start : start + size].view(dtype).reshape(shape)
    if fill is not None:
        out[...] = fill
    return out


def test_a_tiled_product_is_bitwise_the_same_in_every_order():
    rng = np.random.default_rng(1)
    a, b = aligned((64, 48)), aligned((48, 32))
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    results = []
    for checked in (False, True):
        kernels = Emulated(compile_text([("matmul", MATMUL)], checked))
        for order in (0, 1, 2, 3):
            c = aligned((64, 32), fill=np.nan)
            kernels.launch("matmul", 2, 64, 0, [x.ctypes.data for x in (a, b, c)], order)
            results.append(c)
    np.testing.assert_allclose(results[0], a @ b, rtol=1e-5, atol=1e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
