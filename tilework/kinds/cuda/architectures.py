"""What an architecture of NVIDIA GPUs allows, and how many blocks of a kernel an SM holds at once.

An SM (streaming multiprocessor) runs the blocks that are resident on it; their registers, threads
and shared memory all have to fit. Numbers are those of the table of compute capabilities in the
CUDA C++ Programming Guide and of the traits in NVIDIA's CUDA core libraries; the rounding is that
of NVIDIA's occupancy calculator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilework.frozen import frozen
from tilework.index.extents import round_up

WARP = 32
"""Threads that run in step."""

KIB = 1 << 10
_REGISTER_UNIT = 256
"""Registers of a warp are given out in pieces of this many."""
_SUBPARTITIONS = 4
"""Equal parts of an SM, each with its own registers; a warp lives in one of them."""
STATIC_SHARED = 48 * KIB
"""Bytes of shared memory that a kernel may declare; more is given to it at its launch."""


@frozen
class ArchLimits:
    """An architecture.

    Attributes:
        name: as the compiler calls it, such as ``sm_80``.
        threads_per_sm, blocks_per_sm: that can be resident at once.
        shared_per_sm: bytes of shared memory that resident blocks divide among them.
        shared_per_block: bytes that a kernel may use.
        reserved_shared: bytes that the system takes for each block beside them.
        fp32_lanes: float32 multiply-adds that an SM begins in a cycle.
        registers_per_sm, registers_per_thread: of 32 bits; a thread may name the latter many.
        max_threads: of a block.
        async_copy: whether copies to shared memory may pass registers by (``cp.async``).
        mma: whether there are tensor cores for bf16, f16 and tf32 (``mma.sync`` of sm_80).
    """

    name: str
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    reserved_shared: int
    fp32_lanes: int
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    max_threads: int = 1024
    async_copy: bool = False
    mma: bool = False

    @property
    def warps_per_sm(self) -> int:
        """Warps that can be resident at once."""
        return self.threads_per_sm // WARP

    @property
    def number(self) -> int:
        """The compute capability without its dot: 80 for ``sm_80``."""
        return int(self.name.removeprefix("sm_"))


def _arch(number: int, threads: int, blocks: int, shared_kib: int, lanes: int) -> ArchLimits:
    modern = number >= 80
    reserved = KIB if modern else 0
    shared = shared_kib * KIB
    return ArchLimits(
        f"sm_{number}", threads, blocks, shared, shared - reserved, reserved, lanes,
        async_copy=modern, mma=modern,
    )  # fmt: skip


ARCHITECTURES: dict[str, ArchLimits] = {
    limits.name: limits
    for limits in (
        _arch(70, 2048, 32, 96, 64),  # Volta; compilers of CUDA 13 do not know it any more
        _arch(75, 1024, 16, 64, 64),  # Turing
        _arch(80, 2048, 32, 164, 64),  # Ampere, A100
        _arch(86, 1536, 16, 100, 128),
        _arch(87, 1536, 16, 164, 128),  # Orin
        _arch(89, 1536, 24, 100, 128),  # Ada
        _arch(90, 2048, 32, 228, 128),  # Hopper
        _arch(100, 2048, 32, 228, 128),  # Blackwell, B200
        _arch(103, 2048, 32, 228, 128),
        _arch(110, 1536, 24, 228, 128),  # Thor
        _arch(120, 1536, 24, 100, 128),  # Blackwell, RTX 50
        _arch(121, 1536, 24, 100, 128),
    )
}
"""Architectures that code can be made for, by name."""


def resident_blocks(
    limits: ArchLimits, registers: ArrayLike, threads: ArrayLike, shared: ArrayLike
) -> NDArray[np.int64]:
    """Blocks of a kernel that an SM holds at once; 0 where not even one fits.

    Args:
        limits: the architecture.
        registers: of a thread.
        threads: of a block.
        shared: bytes of shared memory of a block, static and dynamic, without what is reserved.

    Returns:
        Whole numbers, of the shape that the arguments broadcast to.
    """
    registers, threads, shared = _whole(registers), _whole(threads), _whole(shared)
    warps = np.maximum(-(-threads // WARP), 1)
    most = np.minimum(limits.blocks_per_sm, limits.warps_per_sm // warps)
    in_warp = round_up(np.maximum(registers, 1) * WARP, _REGISTER_UNIT)
    held = limits.registers_per_sm // _SUBPARTITIONS // in_warp * _SUBPARTITIONS
    most = np.minimum(most, held // warps)
    in_block = round_up(shared + limits.reserved_shared, _shared_unit(limits))
    most = np.minimum(most, limits.shared_per_sm // np.maximum(in_block, 1))
    fits = (
        (registers <= limits.registers_per_thread)
        & (threads <= limits.max_threads)
        & (shared <= limits.shared_per_block)
    )
    return np.asarray(np.where(fits, most, 0), np.int64)


def most_registers(limits: ArchLimits, threads: ArrayLike, blocks: ArrayLike) -> NDArray[np.int64]:
    """Registers a thread may have for ``blocks`` blocks of ``threads`` to be resident at once.

    That is what launch bounds tell the compiler; it is a multiple of 8 or the architecture's own
    limit, and 0 where so many blocks never fit.
    """
    warps = -(-_whole(threads) // WARP) * np.maximum(_whole(blocks), 1)
    in_part = np.maximum(-(-warps // _SUBPARTITIONS), 1)
    in_warp = limits.registers_per_sm // _SUBPARTITIONS // in_part
    registers = in_warp // _REGISTER_UNIT * _REGISTER_UNIT // WARP
    return np.asarray(np.minimum(registers, limits.registers_per_thread), np.int64)


def _shared_unit(limits: ArchLimits) -> int:
    """Bytes that shared memory is given out in."""
    return 128 if limits.number >= 80 else 256


def _whole(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)
