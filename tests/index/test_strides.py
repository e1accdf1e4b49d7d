"""Strides of the same elements under another shape."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.index.strides import row_major, viewed
from tilework.index.symbols import symbol

T, B = symbol("t", 1, 40, (9,)), symbol("b", 1, 4, (1,))
ROOM = (B, 4, 64, 8)
"""Of a value (b, 4, t, 8): heads lie 64 positions apart."""


@pytest.mark.parametrize(
    "other, strides",
    [
        ((B, 4, T, 8), (2048, 512, 8, 1)),
        ((B, 4, 1, T, 8), (2048, 512, 1, 8, 1)),
        ((4 * B, T, 8), (512, 8, 1)),
        ((B, 2, 2, T, 2, 4), (2048, 1024, 512, 8, 4, 1)),
        ((B, 4, 8 * T), (2048, 512, 1)),
        ((B, 4 * T, 8), None),
        ((4 * B * T, 8), None),
        ((B, 4, 8, T), None),
        ((B, 4, T), None),
    ],
)
def test_of_a_value_in_a_room(other, strides):
    assert viewed((B, 4, T, 8), row_major(ROOM), other) == strides


def test_as_numpy_has_it():
    """Shapes of the same number of elements, of cuts of larger arrays."""
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(400):
        whole = rng.integers(1, 5, rng.integers(1, 5))
        part = np.zeros(whole, np.int8)[tuple(slice(rng.integers(1, n + 1)) for n in whole)]
        shape = list(part.shape)
        for _ in range(rng.integers(0, 3)):
            at = int(rng.integers(0, len(shape)))
            cut = int(rng.choice([d for d in (1, 2, 3) if shape[at] % d == 0]))
            shape[at : at + 1] = [cut, shape[at] // cut]
            if len(shape) > 1 and rng.integers(2):
                at = int(rng.integers(0, len(shape) - 1))
                shape[at : at + 2] = [shape[at] * shape[at + 1]]
        found = viewed(part.shape, part.strides, shape)
        try:
            wanted = part.view()
            wanted.shape = shape
        except AttributeError:
            assert found is None
            continue
        assert found is not None
        pairs = zip(shape, found, wanted.strides, strict=True)
        assert all(mine == numpys for n, mine, numpys in pairs if n > 1)
        seen += 1
    assert seen > 100
