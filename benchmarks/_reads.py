"""A plain read of memory in turns with runs of a module: the share of the bandwidth that it has.

What memory delivers changes by the second where other machines share it, so that a read apart from
the runs says little of them.
"""

from __future__ import annotations

import ctypes
import time
from statistics import median

import numpy as np

import tilework as tw
from tilework.kinds.cpu.calibrate.bandwidth import read_loop
from tilework.kinds.cpu.calibrate.code import loaded, zeros
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.team import load_team

_PAGE = 4096
_REGION = """
define void @read_pages(ptr %bases, i64 %start, i64 %stop, i64 %thread) {{
  %begin = load ptr, ptr %bases
  %bytes = mul i64 %start, {page}
  %p = getelementptr i8, ptr %begin, i64 %bytes
  %pages = sub i64 %stop, %start
  %count = mul i64 %pages, {groups}
  %sum = call float @read_loop(ptr %p, i64 %count, i64 1)
  %second = getelementptr ptr, ptr %bases, i64 1
  %sums = load ptr, ptr %second
  %place = getelementptr float, ptr %sums, i64 %thread
  store float %sum, ptr %place
  ret void
}}
"""


class Read:
    """A read of so many bytes from end to end, by the threads that run networks.

    Args:
        nbytes: how many; whole pages of them are read.
        target: the machine.
        threads: number of threads.
    """

    def __init__(self, nbytes: int, target: CpuTarget, threads: int) -> None:
        text, group = read_loop(target.lanes())
        region = _REGION.format(page=_PAGE, groups=_PAGE // group)
        self._code = loaded(text + region, target)
        self._memory, self._sums = zeros(nbytes), zeros(4 * threads)
        bases = (ctypes.c_void_p * 2)(self._memory.ctypes.data, self._sums.ctypes.data)
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
        self._parallel = ctypes.CFUNCTYPE(None, *kinds)(load_team()["tw_parallel"])
        self._given = (self._code.address("read_pages"), bases, nbytes // _PAGE, threads)

    def __call__(self) -> float:
        """Seconds of one read."""
        start = time.perf_counter()
        self._parallel(*self._given)
        return time.perf_counter() - start


def share_of_bandwidth(module: tw.Module, nbytes: int, seconds: float) -> tuple[float, float]:
    """How long a run takes beside a read of so many bytes before and behind it.

    Returns:
        Seconds of a run, and the time of a read over it: medians.
    """
    threads = module.num_threads
    read, run = Read(nbytes, CpuTarget(), threads), module.bind()
    for array in run.inputs.values():
        array[...] = np.random.default_rng(0).standard_normal(array.shape)
    pairs: list[tuple[float, float]] = []
    until = time.perf_counter() + seconds
    before = read()
    while not pairs or time.perf_counter() < until:
        run()  # what a read has put out of the caches is there again
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        behind = read()
        pairs.append((took, (before + behind) / 2 / took))
        before = read()
    times, shares = zip(*pairs, strict=True)
    return median(times), median(shares)
