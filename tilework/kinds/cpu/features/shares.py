"""How the iterations of a nest's parallel loops divide among threads, for all candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cpu.machine import Machine
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis

Floats = NDArray[np.float64]


@frozen(eq=False)
class Shares:
    """How the fused parallel loops divide among threads.

    Attributes:
        chunks: iterations of the fused parallel loops (1: serial).
        threads: how many of them have any.
        balance: slowest thread's share of the work times the number of threads, at least 1.
        parallel: whether threads share the work at all.
    """

    chunks: Floats
    threads: Floats
    balance: Floats
    parallel: NDArray[np.bool_]

    @staticmethod
    def of(nest: BlockNest, tiles: dict[Axis, Floats], machine: Machine) -> Shares:
        """The shares of a nest's candidates."""
        chunks, fused, cores = np.ones(nest.count), nest.parallel, machine.cores
        for i, (a, level) in enumerate(nest.block.parallel_loops):
            if a.typical > 1:
                np.multiply(chunks, tiles[a][level], out=chunks, where=fused > i)
        balance = np.ceil(chunks / cores) * cores / chunks
        if cores > 1 and any(a.open for a in nest.block.parallel_axes):
            balance = np.maximum(balance, _uneven(nest, tiles, chunks, cores))
        parallel = (fused > 0) & (cores > 1)
        return Shares(chunks, np.minimum(chunks, machine.cores), balance, parallel)

    def slowest_thread(self, cycles: Floats, memory: Floats, machine: Machine) -> Floats:
        """Cycles until all threads are done; they share what memory delivers."""
        share = np.where(self.parallel, self.balance / machine.cores, 1.0)
        own = np.maximum(cycles * share, memory / min(machine.cores, machine.memory_cores))
        return np.asarray(own + np.where(self.parallel, machine.fork_cycles, 0.0))


def _uneven(nest: BlockNest, tiles: dict[Axis, Floats], chunks: Floats, cores: int) -> Floats:
    """`Shares.balance` where a run decides how much the last iteration of an axis has to do.

    At least what it is in the mean of runs: their extents are those of no point.
    """
    full, some, parallel = np.ones(nest.count), np.zeros(nest.count, bool), nest.parallel
    for i, a in enumerate(nest.block.parallel_axes):
        if a.open:
            cut = (parallel > i) & (tiles[a][0] > 1)
            covered = np.multiply.reduce(tiles[a], axis=0)
            full = np.where(cut, full * a.typical / covered, full)
            some |= cut
    if not some.any():
        return np.ones(nest.count)
    work = chunks * full  # in whole iterations
    whole = np.floor(work)
    rounds = np.floor(whole / cores)
    last = np.where(whole > rounds * cores, 1.0, work - whole)
    slowest = np.maximum(rounds + last, work / cores + 0.5 - 0.5 / cores)
    return np.where(some, np.minimum(slowest * cores / work, cores), 1.0)
