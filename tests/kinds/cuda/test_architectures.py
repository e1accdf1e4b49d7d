"""How many blocks an SM holds at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilework.kinds.cuda.architectures import (
    ARCHITECTURES,
    most_registers,
    resident_blocks,
)


def test_occupancy_is_that_of_the_calculator():
    """A 64x64x16 product in blocks of 256 threads: 50 % of an A100's warps, 62 % of an H100's."""
    a100, h100 = ARCHITECTURES["sm_80"], ARCHITECTURES["sm_90"]
    assert resident_blocks(a100, 64, 256, 8192) == 4
    assert resident_blocks(h100, 48, 256, 8192) == 5


def test_each_limit_bounds_the_resident_blocks():
    limits = ARCHITECTURES["sm_80"]
    registers = np.array([32, 32, 255, 256, 32, 32, 33, 24])
    threads = np.array([1024, 32, 256, 256, 256, 256, 256, 1056])
    shared = np.array([0, 0, 0, 0, 163 << 10, (163 << 10) + 1, 0, 0])
    assert resident_blocks(limits, registers, threads, shared).tolist() == [
        2,  # threads
        32,  # blocks
        1,  # registers
        0,  # a thread cannot name so many
        1,  # shared memory
        0,
        6,  # 33 registers are given out as 40
        0,  # too many threads in a block
    ]
    assert resident_blocks(limits, 32, 256, 81 << 10) == 2
    assert resident_blocks(limits, 32, 256, 82 << 10) == 1  # with what is reserved 166 KiB
    assert resident_blocks(ARCHITECTURES["sm_75"], 32, 256, 32 << 10) == 2


@given(
    st.sampled_from(list(ARCHITECTURES.values())),
    st.integers(1, 32).map(lambda w: 32 * w),
    st.integers(1, 16),
)
def test_launch_bounds_hold_what_they_promise(limits, threads, blocks):
    registers = int(most_registers(limits, threads, blocks))
    fit = min(limits.threads_per_sm // threads, limits.blocks_per_sm)
    if registers and blocks <= fit:
        assert resident_blocks(limits, registers, threads, 0) >= blocks


def test_launch_bounds_of_the_compiler():
    limits = ARCHITECTURES["sm_80"]
    found = most_registers(limits, [256, 256, 256, 64, 1024], [1, 2, 3, 1, 2])
    assert found.tolist() == [255, 128, 80, 255, 32]
