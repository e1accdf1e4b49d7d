"""What a scheduled nest costs, for all candidates at once: the input of features and draft.

Every quantity is an array of length P. Nothing here looks at one candidate at a time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cpu.features.across import across_cycles, byte_cycles
from tilework.kinds.cpu.features.borders import code_versions
from tilework.kinds.cpu.features.ends import waiting_cycles
from tilework.kinds.cpu.features.facts import BlockFacts, block_facts
from tilework.kinds.cpu.features.local import attached_cycles
from tilework.kinds.cpu.features.scattering import term_cycles
from tilework.kinds.cpu.features.shares import Shares
from tilework.kinds.cpu.features.tile import (
    StepCycles,
    TileShape,
    step_cycles,
    together,
    unrolled_steps,
    version_cycles,
)
from tilework.kinds.cpu.features.traffic import (
    Traffic,
    first_pass,
    followed,
    in_turns,
    stopped,
    traffic_of,
)
from tilework.kinds.cpu.features.unit import kept_cycles, shaping_cycles, unit_cycles
from tilework.kinds.cpu.machine import Machine
from tilework.once import cached_property
from tilework.space.bounds import conjuncts
from tilework.space.capabilities import Transform
from tilework.space.matrix_unit import in_unit
from tilework.space.nest import BlockNest
from tilework.space.regions import scratch_bytes
from tilework.te.affine import linear
from tilework.te.expr import Axis, Compare, Expr, IfThenElse, walk

Floats = NDArray[np.float64]
CALL_CYCLES = 200.0  # entering and leaving a region
_LOAD, _STORE = 2.0, 4.0  # with the address; a store, with what begins the tile
_SUM_WAITS, _SUM_BYTES = 2.0, 4
"""Cycles of a vector of sums that is put away, and taken up again; bytes of a sum of bytes."""
_DECODE_CYCLES = 20.0
"""What an iteration of parallel loops costs more than one of serial loops, where they reach a
deeper level: its number is divided into their indices, and nothing is kept from the one before."""
_DIVIDE_CYCLES = 5.0
"""The same of each loop but one at the outermost level, where ends are what a run decides."""


@frozen(eq=False)
class BlockCost:
    """What one block costs, term by term (cycles of one core for the whole block unless said).

    A term is computed when it is first asked for: seconds need few of those that the learned
    model is shown.
    """

    nest: BlockNest
    machine: Machine

    @cached_property
    def seconds(self) -> Floats:
        """Predicted run time."""
        machine, shares = self.machine, self.shares
        busy, memory = self._busy, self._memory
        panels = followed(self._facts, machine)
        if panels:
            stream = np.add.reduce(self._traffic.into[0][list(panels)], axis=0) / machine.l2_rate
            busy, memory = together(busy, stream), [memory[0] - stream, *memory[1:]]
        slowest = np.maximum.reduce([busy, *memory])
        hidden = busy + memory[0] + memory[1] + memory[2] - slowest
        first = first_pass(self._facts, self._traffic, self._shape.numbers, self._busy, machine)
        waits = waiting_cycles(self._facts, self._shape, self._traffic, machine)
        waits = waits + in_turns(self._facts, self._shape.sizes, memory[2], machine)
        cycles = slowest + machine.not_hidden * hidden + first + waits
        block, parallel = self.nest.block, self.nest.parallel
        if machine.cores == 1 and any(a.open for a in block.spatial):
            cycles = cycles + stopped(self._facts, self._shape.numbers, self._sum.visits)
        if machine.cores > 1 and any(a.open for a in block.parallel_axes):
            cycles = cycles + _DIVIDE_CYCLES * np.maximum(parallel - 1, 0) * shares.chunks
        if len(block.parallel_loops) > len(block.parallel_axes):
            deeper = parallel > len(block.parallel_axes)
            cycles = cycles + np.where(deeper, _DECODE_CYCLES * shares.chunks, 0.0)
        total = shares.slowest_thread(cycles, memory[2], machine) + CALL_CYCLES
        return np.asarray(total / machine.clock_hz)

    @cached_property
    def compute(self) -> Floats:
        """Instruction throughput, latency and loop overhead of the register tiles."""
        shape, machine = self._shape, self.machine
        if self.nest.block.transform is not None:
            vector = transform_cycles(self._facts, self.nest.block.transform, machine)
            return shape.tiles * (shape.vectors * vector)
        if self.nest.block.scatter is not None:
            each = term_cycles(self.nest.block, shape, self._facts, machine)
            return np.asarray(each * self._sum.points)
        facts, step, loop = self._facts, self._step, self._loop
        cycles = shape.sum_over_versions(
            lambda pixels, vectors: (
                version_cycles(facts, pixels, vectors, machine, step, shape)
                + step.stalls * pixels / shape.pixels
                + loop
            )
        )
        if self._in_unit is not None:
            own = shape.sum_over_versions(
                lambda pixels, vectors: unit_cycles(self.nest, pixels, vectors, machine)
            )
            cycles = np.where(self._in_unit, own, cycles)
        cycles = cycles * self._sum.points
        if facts.rest is not None:
            each = across_cycles(shape, self._unrolled[facts.rest], machine)
            cycles = np.where(each > 0, shape.tiles * shape.pixels * each, cycles)
        if facts.bytes_along is not None:
            together = self._unrolled[facts.bytes_along]
            each = byte_cycles(together) * (self._sum.points / together)
            own = (each > 0) & (shape.vectors == shape.sizes[-1])  # no lanes are points
            cycles = np.where(own, shape.tiles * shape.work * each, cycles)
        return cycles

    @cached_property
    def finish(self) -> Floats:
        """Starting and finishing register tiles."""
        shape, machine = self._shape, self.machine
        tile_ops = shape.finished * self._facts.finish_cycles(machine) + machine.tile_cycles
        visits = self._sum.visits
        each: Floats | float = _SUM_WAITS
        if followed(self._facts, machine):
            each = each + _sums_moved(self.nest, machine)
        respill = np.where(visits > 1, each * shape.work * (visits - 1), 0.0)
        if self._in_unit is not None:
            own = kept_cycles(shape.work, visits) + shaping_cycles(self.nest)
            respill = np.where(self._in_unit, own, respill)
        return np.asarray(shape.tiles * (tile_ops + respill + machine.loop_cycles * visits * 4))

    @cached_property
    def length(self) -> Floats:
        """About how many instructions the code of its register tiles is.

        An expanded body, and the end of a tile, stand there once for each version of the tile.
        That of a transform is the same in all rows: 0.
        """
        shape, facts = self._shape, self._facts
        if self.nest.block.transform is not None:
            return np.zeros(self.nest.count)
        step = shape.work * facts.update_ops + _LOAD * self._step.loads
        finish = shape.work * (facts.finish_ops + facts.math_ops + _STORE)
        if self._in_unit is not None:  # a loop over rows
            finish = np.where(self._in_unit, finish / shape.pixels, finish)
            step = np.where(self._in_unit, shape.vectors + shape.pixels, step)
        return code_versions(self.nest, self._unrolled) * (self._steps_unrolled * step + finish)

    @cached_property
    def attached(self) -> Floats | float:
        """Computing attached producers."""
        return attached_cycles(self.nest, self.machine) if self.nest.block.attached else 0.0

    @cached_property
    def moved(self) -> list[Floats]:
        """Bytes into L1, L2 and L3, each summed over accesses."""
        return [np.add.reduce(level, axis=0) for level in self._traffic.into]

    @cached_property
    def shares(self) -> Shares:
        """How the block's work is shared out among threads."""
        return Shares.of(self.nest, self._loops.tiles, self.machine)

    def terms(self) -> dict[str, Floats | float]:
        """All that is told to the learned model, by name; further terms are for it alone."""
        nest, shape, step = self.nest, self._shape, self._step
        out: dict[str, Floats | float] = {
            "compute": self.compute,
            "finish": self.finish,
            "attached": self.attached,
            "chunks": self.shares.chunks,
            "balance": self.shares.balance,
            "pixels": shape.pixels,
            "vectors": shape.vectors,
            "accumulators": shape.work,
            "step_cycles": step.base + step.stalls + self._loop,
            "step_loads": step.loads,
            "guarded_loads": step.guarded,
            "unrolled_steps": self._steps_unrolled,
            "reduce_points": self._sum.points,
            "reduce_inner": self._sum.inner,
            "reduce_visits": self._sum.visits,
            "tiles": shape.tiles,
            "wasted_slots": shape.waste,
            "threads": self.shares.threads,
            "scratch": scratch_bytes(nest).astype(np.float64),
            "unroll": nest.unroll.astype(np.float64),
            "parallel": nest.parallel.astype(np.float64),
            "memory_l2": self._memory[0],
            "memory_l3": self._memory[1],
            "memory_dram": self._memory[2],
        }
        for level, moved in enumerate(self.moved):
            out[f"traffic_l{level + 1}"] = moved
        into, footprint = self._traffic.into, self._traffic.footprint
        for i in range(3):
            out[f"footprint_{i}"] = footprint[i] if i < len(footprint) else 0.0
            for level in range(2):
                known = i < len(into[level])
                out[f"traffic_{level}_{i}"] = into[level][i] if known else 0.0
        return out | _extents(nest, self._loops.tiles)

    @cached_property
    def _facts(self) -> BlockFacts:
        return block_facts(self.nest.block)

    @cached_property
    def _loops(self) -> Loops:
        return Loops.of(self.nest, self._facts)

    @cached_property
    def _shape(self) -> TileShape:
        return TileShape(self.nest, self._loops.tiles, self.machine)

    @cached_property
    def _in_unit(self) -> NDArray[np.bool_] | None:
        """Which rows have register tiles in a matrix unit; None if there is none."""
        block = self.nest.block
        if block.matrix is None:
            return None
        return in_unit(block, [self.nest.tiles[a][-1] for a in block.spatial])

    @cached_property
    def _sum(self) -> Reduction:
        return Reduction.of(self.nest, self._loops.tiles, self._facts)

    @cached_property
    def _unrolled(self) -> dict[Axis, Floats]:
        return unrolled_steps(self.nest)

    @cached_property
    def _steps_unrolled(self) -> Floats:
        steps = np.ones(self.nest.count)
        for axis, factor in self._unrolled.items():
            steps = steps if axis.unit else steps * factor
        return steps

    @cached_property
    def _loop(self) -> Floats:
        """Overhead of the innermost loop, per step."""
        return self.machine.loop_cycles / self._steps_unrolled

    @cached_property
    def _step(self) -> StepCycles:
        inner = self._sum.inner
        known = self._facts, self._shape, self._unrolled, self._steps_unrolled
        return step_cycles(*known, inner, self.machine)

    @cached_property
    def _traffic(self) -> Traffic:
        return traffic_of(self.nest, self._facts, self._loops.table, self.machine)

    @cached_property
    def _memory(self) -> list[Floats]:
        """Cycles that L2, L3 and memory take."""
        machine = self.machine
        rates = (machine.l2_rate, machine.l3_rate, machine.memory_rate)
        return [t / r for t, r in zip(self.moved, rates, strict=True)]

    @cached_property
    def _busy(self) -> Floats:
        return self.compute + self.finish + self.attached


def memory_seconds(cost: BlockCost) -> Floats:
    """What a block brings from memory takes so long, if nothing hides it."""
    machine = cost.machine
    rate = min(machine.cores, machine.memory_cores) * machine.clock_hz
    return np.asarray(cost._memory[2] / rate)


class Loops(NamedTuple):
    """Extents of a nest's loops; what data leave of an axis stands in one piece.

    Attributes:
        table: as the nest has it.
        tiles: the same by axis.
    """

    table: Floats
    tiles: dict[Axis, Floats]

    @staticmethod
    def of(nest: BlockNest, facts: BlockFacts) -> Loops:
        """The loops of a nest's candidates."""
        table = nest.table.astype(np.float64)
        tiles = {axis: table[loops] for axis, loops in nest.places}
        for axis, mean in facts.ragged.items():
            tiles[axis][:] = mean
        return Loops(table, tiles)


@frozen(eq=False)
class Reduction:
    """How the points of a block's reduction are visited.

    Attributes:
        points: its steps.
        inner: those between two visits of a register tile.
        visits: of each register tile.
    """

    points: float | Floats
    inner: float | Floats
    visits: Floats

    @staticmethod
    def of(nest: BlockNest, tiles: dict[Axis, Floats], facts: BlockFacts) -> Reduction:
        """The reduction of a nest's candidates."""
        dots, points, inner = nest.block.dots, 1.0, 1.0
        for a in (a for a in nest.block.reduce if not a.unit):
            # several points that one step takes
            together = dots.count if dots is not None and a is dots.axis else 1
            points = points * (facts.ragged.get(a, a.typical) / together)
            inner = inner * (tiles[a][-1] / together)
        some = np.maximum(inner, 1e-9)  # a short sum may have no whole vector, and no visit
        visits = points / some
        return Reduction(
            points, inner, visits if visits.ndim else np.full(nest.count, float(visits))
        )


def _sums_moved(nest: BlockNest, machine: Machine) -> Floats:
    """Cycles more of a vector of sums where those that wait are more than L1, or L2, has room for.

    A sum of bytes is four times as wide as what is multiplied.
    """
    levels = nest.block.levels.visited
    held = [np.multiply.reduce(nest.tiles[a][levels:], axis=0) for a in nest.block.spatial]
    sums = _SUM_BYTES * np.multiply.reduce(held, axis=0, dtype=np.float64)
    there_and_back = 2.0 * _SUM_BYTES * machine.lanes
    near = np.where(sums > machine.l1_bytes, there_and_back / machine.l2_rate, 0.0)
    far = np.where(sums > machine.l2_bytes, there_and_back / machine.l3_rate, 0.0)
    return np.asarray(near + far)


@lru_cache(maxsize=1024)
def transform_cycles(facts: BlockFacts, transform: Transform, machine: Machine) -> float:
    """Cycles of a vector of a transform: operations or loads, and conditions at the border."""
    reads_, _ = transform.points()
    per_vector = max(transform.operations() / machine.fma_ports, reads_ / machine.load_ports)
    border = 0.0
    if isinstance(transform.data, IfThenElse):
        taps = {s.reduce for s in transform.stages}
        dims = [d for a in facts.accesses for d in a.dims if d and taps & set(d)]
        counts = [float(a.typical) for d in dims for a in d if a not in taps]
        steps = [step for d in dims for a, step in d.items() if a not in taps]
        slabs = {a for a in walk(transform.data.cond) if isinstance(a, Axis) and a.kind == "loop"}
        for a in slabs:  # of rows, which come first
            counts[0] *= _slabs(a, transform.data.cond, counts[0] * steps[0])
        border = 1.0 - float(np.prod([max(n - 2, 0) / n for n in counts]))
    return per_vector + machine.guard_cycles * reads_ * border


def _slabs(var: Axis, cond: Expr, rows: float) -> float:
    """How many slabs there are, of so many rows: ``var`` is a slab's number, or its first row."""
    sides = [
        linear(side) for c in conjuncts(cond) if isinstance(c, Compare) for side in (c.a, c.b)
    ]
    first = all(form is None or form.step(var) in (0, 1) for form in sides)
    return math.ceil((var.typical - 1) / rows) + 1 if first else float(var.typical)


def _extents(nest: BlockNest, tiles: dict[Axis, Floats]) -> dict[str, Floats]:
    """Loop extents by position: the last three spatial and the last three reduce axes."""
    out: dict[str, Floats] = {}
    one = np.ones(nest.count)
    for kind, axes, levels in (("s", nest.block.spatial, 4), ("r", nest.block.reduce, 2)):
        for back in range(3):
            axis = axes[-1 - back] if back < len(axes) else None
            own = tiles[axis] if axis is not None else ()
            for level in range(levels):
                at = len(own) - levels + level
                out[f"{kind}{back}_{level}"] = own[at] if at >= 0 else one
    return out
