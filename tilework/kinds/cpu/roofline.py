"""The least time that a kernel call can take on this machine."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Protocol

from tilework.frozen import frozen
from tilework.kinds.cpu.calibrate.bandwidth import level_of, read_level
from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.kinds.cpu.target import CpuTarget
from tilework.locks import Lock
from tilework.overriding import override
from tilework.runtime.executor import Roofline
from tilework.runtime.image import Step


class Reading(Protocol):
    """How fast threads read; `tilework.kinds.cpu.calibrate.bandwidth.Bandwidth` is one."""

    def of(self, nbytes: float, target: CpuTarget, threads: int = 1) -> float:
        """The bandwidth at which a working set of so many bytes is read again and again, GB/s."""


class _Measured(Reading):
    """This machine, of which a level is measured when it is first asked for.

    Where caches are large, the far levels take seconds, and small networks have nothing there.
    """

    def __init__(self) -> None:
        self._rates: dict[tuple[str, CpuTarget, int], float] = {}

    @override
    def of(self, nbytes: float, target: CpuTarget, threads: int = 1) -> float:
        asked = level_of(nbytes, target, threads), target, threads
        with _measuring:
            if asked not in self._rates:
                self._rates[asked] = read_level(*asked)
            return self._rates[asked]


@frozen
class CpuRoofline(Roofline):
    """What a number of threads reaches on this machine, measured with generated code."""

    wall_clock: ClassVar[bool] = True

    target: CpuTarget
    threads: int
    peak_gflops: float
    bandwidth: Reading

    @override
    def flops(self, step: Step) -> float:
        return self.peak_gflops * 1e9

    @override
    def read_s(self, nbytes: float, footprint: float) -> float:
        return nbytes / (self.bandwidth.of(footprint, self.target, self.threads) * 1e9)

    @override
    def level(self, nbytes: float) -> str:
        sizes = (
            ("the L1 cache", self.target.l1_bytes * self.threads),
            ("the L2 cache", self.target.l2_bytes * self.threads),
            ("the L3 cache", self.target.l3_bytes),
        )
        return next((name for name, size in sizes if nbytes <= size), "memory")


_measuring = Lock()
"""Two measurements at once would disturb each other."""


def measure_roofline(target: CpuTarget, threads: int) -> CpuRoofline:
    """The machine's figures at a number of threads, each measured once per process.

    The target must be one whose code this machine runs.
    """
    with _measuring:
        return _measure(target, threads)


@lru_cache(maxsize=8)
def _measure(target: CpuTarget, threads: int) -> CpuRoofline:
    peak = fma_peak_gflops(target, threads=threads)
    return CpuRoofline(target, threads, peak, _Measured())
