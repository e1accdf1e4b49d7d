"""What a scheduled nest costs, for all candidates at once: the input of features and draft.

Every quantity is an array of length P. Nothing here looks at one candidate at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.access import block_facts
from tilework.kinds.cpu.features.local import attached_cycles
from tilework.kinds.cpu.features.tile import (
    TileShape,
    step_cycles,
    unrolled_steps,
    version_cycles,
)
from tilework.kinds.cpu.features.traffic import first_pass, traffic_of
from tilework.kinds.cpu.machine import Machine
from tilework.space.capabilities import Transform
from tilework.space.nest import BlockNest
from tilework.space.regions import scratch_bytes
from tilework.te.expr import Axis, IfThenElse
from tilework.te.flops import mean_terms

Floats = NDArray[np.float64]
_CALL_CYCLES = 200.0  # entering and leaving a region
_DECODE_CYCLES = 20.0
"""What an iteration of parallel loops costs more than one of serial loops, where they reach a
deeper level: its number is divided into their indices, and nothing is kept from the one before."""


@dataclass(frozen=True, eq=False)
class BlockCost:
    """What one block costs, term by term (cycles of one core for the whole block unless said).

    Attributes:
        compute: instruction throughput, latency and loop overhead of the register tiles.
        finish: starting and finishing register tiles.
        attached: computing attached producers.
        traffic: bytes into L1, L2 and L3, each summed over accesses.
        chunks: iterations of the fused parallel loops (1: serial).
        balance: slowest thread's share of the work times the number of threads, at least 1.
        seconds: predicted run time.
        extra: further descriptive terms, for the learned model alone.
    """

    compute: Floats
    finish: Floats
    attached: Floats
    traffic: list[Floats]
    chunks: Floats
    balance: Floats
    seconds: Floats
    extra: dict[str, Floats]


def block_cost(nest: BlockNest, machine: Machine) -> BlockCost:
    """What one block costs, for all candidates of the nest."""
    block, facts = nest.block, block_facts(nest.block)
    count = nest.count
    tiles = {a: [t.astype(np.float64) for t in ts] for a, ts in nest.tiles.items()}
    limited = mean_terms(block.op)
    for a, mean in limited.items():  # what data leave of the axis, in one piece
        tiles[a] = [np.full(count, mean)]
    shape = TileShape(nest, tiles, machine)
    dots = block.dots  # several points that one step takes
    points = np.ones(count)
    inner_points = np.ones(count)
    for a in block.reduce:
        together = dots.count if dots is not None and a is dots.axis else 1
        points *= (tiles[a][0] if a in limited else a.typical) / together
        inner_points *= tiles[a][-1] / together
    visits = points / inner_points
    unrolled = unrolled_steps(nest)
    steps_unrolled = np.ones(count)
    for a in block.reduce:
        steps_unrolled = steps_unrolled * unrolled[a]
    found = step_cycles(facts, shape, unrolled, inner_points, machine)
    base, stalls, loads, guarded, scattered, wait = found
    loop = machine.loop_cycles / steps_unrolled
    step = base + stalls + loop
    compute = shape.sum_over_versions(
        lambda pixels, vectors: (
            version_cycles(facts, pixels, vectors, machine, base, shape.work, scattered, wait)
            + stalls * pixels / shape.pixels
            + loop
        )
    )
    compute = compute * points
    transform = block.transform
    if transform is not None:
        compute = shape.tiles * _transform_cycles(nest, transform, shape, machine)
    tile_ops = shape.work * facts.finish_cycles(machine) + machine.tile_cycles
    respill = np.where(visits > 1, 2.0 * shape.work * (visits - 1), 0.0)
    finish = shape.tiles * (tile_ops + respill + machine.loop_cycles * visits * 4)
    attached = attached_cycles(nest, machine)
    traffic = traffic_of(nest, facts, tiles, machine)
    sums = [np.sum(level, axis=0) for level in traffic.into]
    rates = (machine.l2_rate, machine.l3_rate, machine.memory_rate)
    memory = [t / r for t, r in zip(sums, rates, strict=True)]
    busy = compute + finish + attached
    slowest = np.maximum.reduce([busy, *memory])
    hidden = busy + memory[0] + memory[1] + memory[2] - slowest
    cycles = slowest + machine.not_hidden * hidden + first_pass(facts, traffic, busy, machine)
    shares = _Shares.of(nest, tiles, machine)
    deeper = nest.parallel > len(block.parallel_axes)
    cycles = cycles + np.where(deeper, _DECODE_CYCLES * shares.chunks, 0.0)
    total = shares.slowest_thread(cycles, memory[2], machine) + _CALL_CYCLES
    extra = {
        "pixels": shape.pixels,
        "vectors": shape.vectors,
        "accumulators": shape.work,
        "step_cycles": step,
        "step_loads": loads,
        "guarded_loads": guarded,
        "unrolled_steps": steps_unrolled,
        "reduce_points": points,
        "reduce_inner": inner_points,
        "reduce_visits": visits,
        "tiles": shape.tiles,
        "wasted_slots": shape.waste,
        "threads": shares.threads,
        "scratch": scratch_bytes(nest).astype(np.float64),
        "unroll": nest.unroll.astype(np.float64),
        "parallel": nest.parallel.astype(np.float64),
        "memory_l2": memory[0],
        "memory_l3": memory[1],
        "memory_dram": memory[2],
    }
    for i in range(3):
        part = traffic.footprint[i] if i < len(traffic.footprint) else np.zeros(count)
        extra[f"footprint_{i}"] = part
        for level in range(2):
            into = traffic.into[level]
            extra[f"traffic_{level}_{i}"] = into[i] if i < len(into) else np.zeros(count)
    extra |= _extents(nest, tiles)
    return BlockCost(
        compute,
        finish,
        attached,
        sums,
        shares.chunks,
        shares.balance,
        total / machine.clock_hz,
        extra,
    )


@dataclass(frozen=True, eq=False)
class _Shares:
    """How the fused parallel loops divide among threads; see `BlockCost`."""

    chunks: Floats
    threads: Floats
    balance: Floats
    parallel: NDArray[np.bool_]

    @staticmethod
    def of(nest: BlockNest, tiles: dict[Axis, list[Floats]], machine: Machine) -> _Shares:
        chunks = np.ones(nest.count)
        for i, (a, level) in enumerate(nest.block.parallel_loops):
            chunks = np.where(nest.parallel > i, chunks * tiles[a][level], chunks)
        balance = np.ceil(chunks / machine.cores) * machine.cores / chunks
        parallel = (nest.parallel > 0) & (machine.cores > 1)
        return _Shares(chunks, np.minimum(chunks, machine.cores), balance, parallel)

    def slowest_thread(self, cycles: Floats, memory: Floats, machine: Machine) -> Floats:
        """Cycles until all threads are done; they share what memory delivers."""
        share = np.where(self.parallel, self.balance / machine.cores, 1.0)
        own = np.maximum(cycles * share, memory / min(machine.cores, machine.memory_cores))
        return np.asarray(own + np.where(self.parallel, machine.fork_cycles, 0.0))


def _transform_cycles(
    nest: BlockNest, transform: Transform, shape: TileShape, machine: Machine
) -> Floats:
    """Cycles of one tile of a transform: its operations or loads, and conditions at the border."""
    reads_, _ = transform.points()
    per_vector = max(transform.operations() / machine.fma_ports, reads_ / machine.load_ports)
    border = 0.0
    if isinstance(transform.data, IfThenElse):
        taps = {s.reduce for s in transform.stages}
        dims = [d for a in block_facts(nest.block).accesses for d in a.dims if d and taps & set(d)]
        counts = [a.typical for d in dims for a in d if a not in taps]
        border = 1.0 - float(np.prod([max(n - 2, 0) / n for n in counts]))
    return shape.vectors * (per_vector + machine.guard_cycles * reads_ * border)


def _extents(nest: BlockNest, tiles: dict[Axis, list[Floats]]) -> dict[str, Floats]:
    """Loop extents by position: the last three spatial and the last three reduce axes."""
    out: dict[str, Floats] = {}
    one = np.ones(nest.count)
    for kind, axes, levels in (("s", nest.block.spatial, 4), ("r", nest.block.reduce, 2)):
        for back in range(3):
            axis = axes[-1 - back] if back < len(axes) else None
            own = tiles[axis] if axis is not None else []
            for level in range(levels):
                at = len(own) - levels + level
                out[f"{kind}{back}_{level}"] = own[at] if at >= 0 else one
    return out
