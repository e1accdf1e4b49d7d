"""Bank wavefronts and sectors of the lanes of a warp, against counting them one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework.kinds.cuda.features.lanes import digits, sectors, wavefronts


def counted_wavefronts(addresses, width, itemsize):
    """Each bank delivers one word of 4 bytes a wavefront; wide accesses go by parts of a warp."""
    lanes = 32 // max(width * itemsize // 4, 1)
    total = 0
    for first in range(0, 32, lanes):
        words = defaultdict(set)
        for a in addresses[first : first + lanes]:
            for byte in range(a * itemsize, (a + width) * itemsize, 4):
                words[byte // 4 % 32].add(byte // 4)
        total += max(len(w) for w in words.values())
    return total


@given(
    st.lists(st.integers(0, 600), min_size=32, max_size=32),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([2, 4]),
)
def test_wavefronts(numbers, width, itemsize):
    addresses = np.array([n * width for n in numbers])
    found = wavefronts(addresses[None], np.array([width]), itemsize)
    assert found[0] == counted_wavefronts(addresses.tolist(), width, itemsize)


@pytest.mark.parametrize(
    ("step", "waves", "touched"), [(0, 1, 1), (1, 1, 4), (2, 2, 8), (32, 32, 32), (33, 1, 32)]
)
def test_strides(step, waves, touched):
    lanes = np.arange(32)[None] * step
    assert wavefronts(lanes, np.array([1]), 4)[0] == waves
    assert sectors(lanes, 4)[0] == touched


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.sampled_from([1, 2, 8, 64]))
def test_digits(extents, inside):
    found = digits([np.array([n]) for n in extents], np.array([inside]))
    for lane in range(32):
        number, expected = lane // inside, []
        for extent in reversed(extents):
            expected.append(number % extent)
            number //= extent
        assert [int(d[0, lane]) for d in found] == expected[::-1]
