"""Terms of a scheduled nest, for all candidates at once: the shared input of features and draft.

Every quantity is an array of length P. Nothing here looks at one candidate at a time.

Cache traffic follows one rule. Walking from the innermost loop outwards, a tensor's traffic into a
cache of C bytes grows with a loop's trip count, except where one iteration of the loop touches no
more than C bytes in total: then the data of the previous iteration is still there, and traffic
grows only by the tensor's new data (not at all if its address does not depend on the loop).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.features.access import LINE_BYTES, Access, BlockFacts, block_facts, plain_access
from tilework.features.borders import parts, split_axes, tested
from tilework.features.machine import Machine
from tilework.space.blocks import MULTI_LEVEL, Attached
from tilework.space.canonical import EXPANDED_LANES
from tilework.space.guards import serial_taps
from tilework.space.nest import BlockNest
from tilework.space.pairs import pair_axis
from tilework.space.regions import attached_extents
from tilework.space.sketch import scratch_bytes
from tilework.space.tables import divisors
from tilework.space.transforms import Transform, transform_of
from tilework.te.expr import Axis, IfThenElse, reads, walk

Floats = NDArray[np.float64]
_GUARD_LOAD_CYCLES = 0.7
_CONFLICT_CYCLES = 1.5
_CALL_CYCLES = 14.0
_TILE_CYCLES = 14.0
_LOOP_CYCLES = 1.5
_MASKED_LANES = 16  # vectors this wide may leave lanes idle
_WINDOW_LOAD_CYCLES = 1.4  # rows of a window come from L2 more often than not
_COLD_WEIGHT_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes per access into each cache level, and each access's footprint of one outer tile."""

    into: list[list[Floats]]
    footprint: list[Floats]


@dataclass(frozen=True, eq=False)
class Terms:
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


def analyse(nest: BlockNest, machine: Machine) -> Terms:
    """Terms of one block for all candidates of the nest."""
    block, facts = nest.block, block_facts(nest.block)
    count = len(nest.parallel)
    tiles = {a: [t.astype(np.float64) for t in ts] for a, ts in nest.tiles.items()}
    shape = _TileShape(nest, tiles, machine)
    points = np.ones(count)
    inner_points = np.ones(count)
    for a in block.reduce:
        together = 2 if a is pair_axis(block) else 1  # points that one step takes
        points *= a.extent / together
        inner_points *= tiles[a][-1] / together
    visits = points / inner_points
    unrolled = _unrolled(nest, tiles)
    steps_unrolled = np.ones(count)
    for a in block.reduce:
        steps_unrolled = steps_unrolled * unrolled[a]
    base, stalls, loads, guarded = _step_cycles(facts, shape, unrolled, machine)
    loop = _LOOP_CYCLES / steps_unrolled
    step = base + stalls + loop
    compute = shape.sum_over_versions(
        lambda pixels, vectors: (
            _version_cycles(facts, pixels, vectors, machine, base, shape.work)
            + stalls * pixels / shape.pixels
            + loop
        )
    )
    compute = compute * points
    transform = transform_of(block)
    if transform is not None:
        compute = shape.tiles * _transform_cycles(nest, transform, shape, machine)
    finish_ops = 2.0 * facts.finish_ops + facts.math_calls * _CALL_CYCLES
    tile_ops = shape.work * (1.0 + finish_ops / machine.load_ports) + _TILE_CYCLES
    respill = np.where(visits > 1, 2.0 * shape.work * (visits - 1), 0.0)
    finish = shape.tiles * (tile_ops + respill + _LOOP_CYCLES * visits * 4)
    attached = _attached_cycles(nest, machine)
    traffic = _traffic(nest, facts, tiles, machine)
    sums = [np.sum(level, axis=0) for level in traffic.into]
    rates = (machine.l2_rate, machine.l3_rate, machine.memory_rate)
    memory = [t / r for t, r in zip(sums, rates, strict=True)]
    busy = compute + finish + attached
    slowest = np.maximum.reduce([busy, *memory])
    cycles = slowest + 0.25 * (busy + memory[0] + memory[1] + memory[2] - slowest)
    cycles += _first_pass(facts, traffic, busy, machine)
    chunks = np.ones(count)
    for i, a in enumerate(block.parallel_axes):
        chunks = np.where(nest.parallel > i, chunks * tiles[a][0], chunks)
    threads = np.minimum(chunks, machine.cores)
    balance = np.ceil(chunks / machine.cores) * machine.cores / chunks
    parallel = (nest.parallel > 0) & (machine.cores > 1)
    share = np.where(parallel, balance / machine.cores, 1.0)
    shared = np.maximum(cycles * share, memory[2] / min(machine.cores, machine.memory_cores))
    total = shared + np.where(parallel, machine.fork_cycles, 0.0) + 200.0
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
        "threads": threads,
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
    return Terms(compute, finish, attached, sums, chunks, balance, total / machine.clock_hz, extra)


def _first_pass(facts: BlockFacts, traffic: Traffic, busy: Floats, machine: Machine) -> Floats:
    """Cycles lost because weights come from memory during the first of several passes over them.

    Only that pass's share of the instructions can hide them.
    """
    packed = [i for i, a in enumerate(facts.accesses) if a.packed]
    near, far = (
        np.sum([traffic.into[level][i] for i in packed], axis=0) + np.zeros(len(busy))
        for level in (0, 2)
    )
    passes = np.maximum(near / np.maximum(far, 1.0), 1.0)
    memory = far / machine.memory_rate
    return np.maximum(memory - busy / passes, 0.0) - np.maximum(memory - busy, 0.0)


def _transform_cycles(
    nest: BlockNest, transform: Transform, shape: _TileShape, machine: Machine
) -> Floats:
    """Cycles of one tile of a transform: its operations or loads, and conditions at the border."""
    reads_, _ = transform.points()
    per_vector = max(transform.operations() / machine.fma_ports, reads_ / machine.load_ports)
    border = 0.0
    if isinstance(transform.data, IfThenElse):
        taps = {s.reduce for s in transform.stages}
        dims = [d for a in block_facts(nest.block).accesses for d in a.dims if d and taps & set(d)]
        counts = [a.extent for d in dims for a in d if a not in taps]
        border = 1.0 - float(np.prod([max(n - 2, 0) / n for n in counts]))
    return shape.vectors * (per_vector + _GUARD_LOAD_CYCLES * reads_ * border)


class _TileShape:
    """The register tile: rows of pixels times vectors, and its shorter versions at the edges."""

    def __init__(self, nest: BlockNest, tiles: dict[Axis, list[Floats]], machine: Machine) -> None:
        self.nest, self.lanes = nest, machine.lanes
        count = len(nest.parallel)
        self.sizes = [tiles[a][-1] for a in nest.block.spatial]
        self.pixels = np.ones(count)
        for size in self.sizes[:-1]:
            self.pixels = self.pixels * size
        last = self.sizes[-1] if self.sizes else np.ones(count)
        self.vectors = _register_count(last, self.lanes)
        self.work = self.pixels * self.vectors
        self.tiles = np.ones(count)
        slots = np.ones(count)
        for a, size in zip(nest.block.spatial, self.sizes, strict=True):
            n = np.ceil(a.extent / size)
            self.tiles = self.tiles * n
            slots = slots * n * size
        exact = float(np.prod([a.extent for a in nest.block.spatial], dtype=np.float64))
        self.waste = slots / exact

    def sum_over_versions(self, cost: Callable[[Floats, Floats], Floats]) -> Floats:
        """Sum of ``cost(pixels, vectors)`` over all register tiles, full and shorter ones.

        Where taps on padding are left out, over taps, too, in units of all taps.
        """
        versions: list[tuple[Floats, Floats, Floats]] = []
        count = len(self.pixels)
        versions.append((np.ones(count), np.ones(count), np.ones(count)))
        axes = self.nest.block.spatial
        split = split_axes(self.nest.block)
        for i, (a, size) in enumerate(zip(axes, self.sizes, strict=True)):
            full = np.floor(a.extent / size)
            rest = a.extent - full * size
            found = [(full, size), (np.ones(count), rest)]
            if a in split:
                found = parts(self.nest.block, a, size)
            grown: list[tuple[Floats, Floats, Floats]] = []
            vector = i == len(axes) - 1
            for number, pixels, vectors in versions:
                for n, s in found:
                    if not n.any() or not s.any():
                        continue
                    n = np.where(s > 0, n, 0.0)
                    if vector:
                        grown.append((number * n, pixels, _register_count(s, self.lanes)))
                    else:
                        grown.append((number * n, pixels * s, vectors))
            versions = grown
        total = np.zeros(count)
        for number, pixels, vectors in versions:
            total += number * cost(pixels, vectors)
        return total


def _register_count(size: Floats, lanes: int) -> Floats:
    """Registers (whole and partial) that a vector loop of ``size`` elements takes."""
    whole = np.floor(size / lanes)
    rest = (size - whole * lanes).astype(np.int64)
    if lanes >= _MASKED_LANES:
        return whole + (rest > 0)
    bits = np.zeros(len(size))
    width = lanes // 2
    while width:
        bits += (rest & width) > 0
        width //= 2
    return whole + bits


def _unrolled(nest: BlockNest, tiles: dict[Axis, list[Floats]]) -> dict[Axis, Floats]:
    """How far the innermost loop of each reduce axis is expanded, as the lowering does it."""
    work = np.ones(len(nest.parallel))
    for a in nest.block.spatial:
        size = tiles[a][-1]
        work = work * (np.ceil(size / EXPANDED_LANES) if a is nest.block.spatial[-1] else size)
    room = np.maximum(np.floor(nest.unroll / np.maximum(work, 1.0)), 1.0)
    out: dict[Axis, Floats] = {}
    looped = serial_taps(nest.block)
    for a in reversed(nest.block.reduce):
        extent = tiles[a][-1]
        if a in nest.block.const_axes:
            out[a] = extent
            continue
        factor = np.ones(len(room))
        for n in np.unique(extent):
            at = extent == n
            table = np.array(divisors(int(n)))
            factor[at] = table[np.searchsorted(table, room[at], side="right") - 1]
        if a in looped:
            factor = np.ones(len(room))
        out[a] = factor
        room = np.where(factor == extent, np.floor(room / factor), 1.0)
    return out


def _elements(access: Access, shape: _TileShape, unrolled: dict[Axis, Floats]) -> Floats:
    """Elements (of vectors: vectors) that an expanded body reads through ``access``, each once.

    Where windows overlap, several taps of several pixels read the same element.
    """
    spatial = shape.nest.block.spatial
    sizes = dict(zip(spatial[:-1], shape.sizes[:-1], strict=True)) | unrolled
    total = np.ones(len(shape.pixels))
    for dim in access.dims:
        choices, reach = np.ones(len(total)), np.ones(len(total))
        for a, c in (dim or {}).items():
            if a in sizes:
                choices = choices * sizes[a]
                reach = reach + c * (sizes[a] - 1)
        total = total * np.minimum(choices, reach)
    return total


def _step_cycles(
    facts: BlockFacts, shape: _TileShape, unrolled: dict[Axis, Floats], machine: Machine
) -> tuple[Floats, Floats, Floats, Floats]:
    """Cycles of one reduction step of the full register tile, and stalls that come on top.

    Also returns the number of its loads, and of the guarded ones.
    """
    loads = np.zeros(len(shape.pixels))
    cycles = np.zeros(len(shape.pixels))
    guarded = np.zeros(len(shape.pixels))
    conflicts = np.zeros(len(shape.pixels))
    spatial = shape.nest.block.spatial
    steps = np.ones(len(shape.pixels))
    for factor in unrolled.values():
        steps = steps * factor
    windows = facts.windows
    for access in facts.accesses:
        if access.once or (access.store and shape.nest.block.reduce):
            continue
        if windows and access.slides:
            n = _elements(access, shape, unrolled) / steps
        else:
            n = np.ones(len(shape.pixels))
            for a, size in zip(spatial[:-1], shape.sizes[:-1], strict=True):
                if a in access.axes:
                    n = n * size
            if windows:  # what finds no register is read again for every use
                fits = shape.work + steps * shape.vectors < machine.registers
                n = np.where(fits, n, shape.pixels)
        if access.lane_stride == 1:
            n = n * shape.vectors
        elif access.lane_stride:
            n = n * shape.sizes[-1] * 2.0
        loads = loads + n
        if access.lane_stride == 1:
            cycles = cycles + n * (_WINDOW_LOAD_CYCLES if windows else 1.0) / machine.load_ports
        else:
            cycles = cycles + n / machine.broadcast_ports
        if not access.packed and not access.lane_stride:
            conflicts = conflicts + np.where(_thrashes(access, shape, machine), n, 0.0)
        if access.guarded:
            guarded = guarded + n
    pressure = np.maximum(shape.work + shape.vectors + 1 - machine.registers, 0.0)
    per_step = np.maximum.reduce(
        [
            shape.work * facts.update_ops_rate(machine),
            cycles + 2.0 * pressure / machine.load_ports,
            np.full(len(loads), machine.latency if shape.nest.block.reduce else 0.5),
        ]
    )
    guarded = guarded * tested(shape.nest)
    stalls = _GUARD_LOAD_CYCLES * guarded + _CONFLICT_CYCLES * conflicts
    return per_step, stalls, loads, guarded


def _thrashes(access: Access, shape: _TileShape, machine: Machine) -> NDArray[np.bool_]:
    """Whether the pixels of a register tile compete for too few sets of L1.

    Neighbours a power of two apart fall into few of its 64 sets; with more of them than these
    sets hold, every reduction step misses. A row of pixels reaches no more sets than it has
    pixels, so that a few long strides suffice.
    """
    spatial = shape.nest.block.spatial
    common = np.full(len(shape.pixels), 64, np.int64)
    pixels = np.ones(len(shape.pixels))
    reached = np.ones(len(shape.pixels))
    for a, size in zip(spatial[:-1], shape.sizes[:-1], strict=True):
        if a in access.axes:
            lines = access.stride_lines(a)
            common = np.where(size > 1, np.gcd(common, lines), common)
            reached = reached * np.minimum(size, 64 // np.gcd(64, lines))
            pixels = pixels * size
    return pixels >= machine.l1_ways * np.minimum(64 // common, reached)


def _version_cycles(
    facts: BlockFacts,
    pixels: Floats,
    vectors: Floats,
    machine: Machine,
    base: Floats,
    full: Floats,
) -> Floats:
    """Cycles per reduction step of a tile version, without stalls; at most the full tile's.

    ``base`` and ``full`` are the cycles and the registers of the full tile.
    """
    work = pixels * vectors
    busy = work * facts.update_ops_rate(machine)
    if facts.windows:
        loads = base * work / full
    else:
        loads = pixels / machine.broadcast_ports + vectors / machine.load_ports
    return np.minimum(np.maximum.reduce([busy, loads, np.full(len(busy), machine.latency)]), base)


def _attached_cycles(nest: BlockNest, machine: Machine) -> Floats:
    total = np.zeros(len(nest.parallel))
    for attached in nest.block.attached:
        visits = _visits(nest, attached)
        size = np.ones(len(total))
        extents = attached_extents(nest, attached)
        if attached.block is not None:
            total += visits * _local_reduction_cycles(nest, attached, machine)
            continue
        for extent in extents:
            size = size * extent
        guard = any(isinstance(n, IfThenElse) for n in walk(attached.body))
        rows = size / np.maximum(extents[-1], 1)
        total += visits * (size / machine.lanes * (2.0 if guard else 1.2) + rows * 6.0)
    return total


def _visits(nest: BlockNest, attached: Attached) -> Floats:
    """How often the region of an attached producer is computed: recomputation included."""
    visits = np.ones(len(nest.parallel))
    for a in nest.block.spatial:
        visits = visits * nest.outer_trips(a, attached.level)
    return visits


def _local_reduction_cycles(nest: BlockNest, attached: Attached, machine: Machine) -> Floats:
    """Cycles to compute the region of an attached reduction once, in its register tiles."""
    block = attached.block
    assert block is not None
    facts = block_facts(block)
    extents = [e.astype(np.float64) for e in attached_extents(nest, attached)]
    one = np.ones(len(nest.parallel))
    rows = np.prod([one, *extents[:-2]], axis=0)
    pixels, last = (
        np.minimum(t, e)
        for t, e in zip(
            nest.local[attached],
            (extents[-2] if len(extents) > 1 else one, extents[-1] if extents else one),
            strict=True,
        )
    )
    points = float(np.prod([a.extent for a in block.reduce], dtype=np.float64))
    finish_ops = 2.0 * facts.finish_ops + facts.math_calls * _CALL_CYCLES
    across = block.spatial[-2] if len(block.spatial) > 1 else None
    total = np.zeros(len(one))
    for count_p, size_p in _cuts(extents[-2] if len(extents) > 1 else one, pixels):
        for count_v, size_v in _cuts(extents[-1] if extents else one, last):
            vectors = _register_count(size_v, machine.lanes)
            work = size_p * vectors
            loads, guarded = np.zeros(len(one)), np.zeros(len(one))
            for access in facts.accesses:
                if access.once or access.store:
                    continue
                n = size_p if across in access.axes else one
                n = n * (
                    vectors
                    if access.lane_stride == 1
                    else size_v * 2.0
                    if access.lane_stride
                    else 1.0
                )
                loads = loads + n
                guarded = guarded + (n if access.guarded else 0.0)
            step = (
                np.maximum.reduce(
                    [
                        work * facts.update_ops_rate(machine),
                        loads / machine.load_ports,
                        np.full(len(one), machine.latency),
                    ]
                )
                + _GUARD_LOAD_CYCLES * guarded
            )
            done = work * (1.0 + finish_ops / machine.load_ports) + _TILE_CYCLES
            total += rows * count_p * count_v * (step * points + done)
    return total


def _cuts(extent: Floats, size: Floats) -> list[tuple[Floats, Floats]]:
    """Number and size of the full tiles of a region's dimension, and of the shorter last one."""
    whole = np.floor(extent / size)
    rest = extent - whole * size
    return [(whole, size), (np.where(rest > 0, 1.0, 0.0), np.maximum(rest, 1.0))]


def _local_traffic(nest: BlockNest, sizes: Sequence[float]) -> list[list[Floats]]:
    """Bytes that the inputs of attached reductions bring into each level, per access.

    A tensor that fits into a cache comes into it once; a larger one comes with every visit.
    """
    out: list[list[Floats]] = [[] for _ in sizes]
    local = {a.op for a in nest.block.attached}
    for attached in nest.block.attached:
        spans = {
            a: e.astype(np.float64)
            for a, e in zip(attached.axes, attached_extents(nest, attached), strict=True)
        }
        count = len(nest.parallel)
        reduce = attached.block.reduce if attached.block is not None else ()
        spans |= {a: np.full(count, float(a.extent)) for a in reduce}
        visits = _visits(nest, attached)
        for read in reads(attached.source):
            if read.tensor.op in local:
                continue
            access = plain_access(read)
            whole = float(np.prod(access.shape, dtype=np.float64)) * access.element_bytes
            each = visits * _footprint(access, spans, count)
            for level, size in zip(out, sizes, strict=True):
                level.append(np.minimum(each, whole) if whole <= size else each)
    return out


def _footprint(access: Access, spans: dict[Axis, Floats], count: int) -> Floats:
    """Bytes of cache lines that an access touches while its axes run over ``spans``."""
    size = np.full(count, float(access.element_bytes))
    width: Floats | float
    for i, (dim, extent) in enumerate(zip(access.dims, access.shape, strict=True)):
        if dim is None:
            width = float(extent)
        else:
            width = 1.0
            for axis, c in dim.items():
                width = width + c * (spans[axis] - 1)
            width = np.minimum(width, extent)
        if i == len(access.dims) - 1 and not access.packed:
            lines = np.ceil(width * access.element_bytes / LINE_BYTES)
            width = lines * (LINE_BYTES / access.element_bytes)
        size = size * width
    return size


def _traffic(
    nest: BlockNest, facts: BlockFacts, tiles: dict[Axis, list[Floats]], machine: Machine
) -> Traffic:
    block = nest.block
    count = len(nest.parallel)
    sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
    spans = {a: np.ones(count) for a in (*block.spatial, *block.reduce)}
    now = [_footprint(a, spans, count) for a in facts.accesses]
    into = [[f.copy() for f in now] for _ in sizes]
    whole = np.sum(now, axis=0)
    footprint = now
    warm = _warm(facts, machine)
    for axis, level in reversed(block.loops):
        trips = tiles[axis][level]
        if (trips == 1).all():
            continue
        spans[axis] = np.minimum(spans[axis] * trips, axis.extent)
        after = [
            _footprint(access, spans, count) if axis in access.axes else now[i]
            for i, access in enumerate(facts.accesses)
        ]
        for per_access, size in zip(into, sizes, strict=True):
            fits = whole <= size
            for i, access in enumerate(facts.accesses):
                if access.once and axis.kind == "reduce":
                    continue
                grown = after[i] / now[i] if axis in access.axes else 1.0
                per_access[i] = per_access[i] * np.where(fits, grown, trips)
        now = after
        whole = np.sum(now, axis=0)
        if axis.kind == "spatial" and level == (2 if block.structure == MULTI_LEVEL else 1):
            footprint = now
    for i in warm:  # what a producer has left in L3 need not come from memory
        into[2][i] = np.maximum(into[2][i] - now[i], 0.0)
    if block.attached_reductions:
        for per_access in into[1:]:  # a thread's buffer stays in its own caches
            for i in facts.local:
                per_access[i] = np.zeros(count)
        for per_access, more in zip(into, _local_traffic(nest, sizes), strict=True):
            per_access += more
    return Traffic(into, footprint)


def _warm(facts: BlockFacts, machine: Machine) -> list[int]:
    """Accesses whose tensors are in L3 when the block starts.

    In a network these are the results of the layer before; large weights come from memory.
    """
    found = [
        i
        for i, a in enumerate(facts.accesses)
        if not (a.packed and a.tensor_bytes >= _COLD_WEIGHT_BYTES)
    ]
    total = sum(facts.accesses[i].tensor_bytes for i in found)
    return found if total <= machine.l3_bytes * machine.cores else []


def _extents(nest: BlockNest, tiles: dict[Axis, list[Floats]]) -> dict[str, Floats]:
    """Loop extents by position: the last three spatial and the last three reduce axes."""
    out: dict[str, Floats] = {}
    one = np.ones(len(nest.parallel))
    for kind, axes, levels in (("s", nest.block.spatial, 4), ("r", nest.block.reduce, 2)):
        for back in range(3):
            axis = axes[-1 - back] if back < len(axes) else None
            own = tiles[axis] if axis is not None else []
            for level in range(levels):
                at = len(own) - levels + level
                out[f"{kind}{back}_{level}"] = own[at] if at >= 0 else one
    return out
