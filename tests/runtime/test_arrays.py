"""Where arrays lie."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.runtime.arrays import ALIGN, address, kept_memory

WHOLE = np.zeros((8, 6), np.float32)
FIXED = np.zeros(4)
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    "array",
    [
        WHOLE, WHOLE[2:], WHOLE.T, WHOLE[::2, ::3], WHOLE[::-1], WHOLE[:0], np.zeros(()), FIXED,
        np.frombuffer(b"abcd", np.uint8), np.broadcast_to(FIXED[:1], (3,)), np.zeros(3, ">f4"),
        np.zeros(3, np.float16), np.zeros(3, bool), np.zeros(3, "M8[s]"),
    ],
)  # fmt: skip
def test_the_address_is_what_numpy_says(array):
    assert address(array) == array.ctypes.data


def test_memory_that_is_kept():
    few, more = kept_memory(100, False), kept_memory(3 << 19, True)
    assert (few.nbytes, more.nbytes) == (100, 3 << 20)
    assert few.ctypes.data % ALIGN == more.ctypes.data % (1 << 21) == 0  # a huge page begins there
    assert kept_memory(1 << 27, True).nbytes == (1 << 27) + (1 << 26)
