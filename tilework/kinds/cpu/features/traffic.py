"""Traffic between the caches, by one rule.

Walking from the innermost loop outwards, a tensor's traffic into a cache of C bytes grows with a
loop's trip count, except where one iteration of the loop touches no more than C bytes in total:
then the data of the previous iteration is still there, and traffic grows only by the tensor's new
data (not at all if its address does not depend on the loop).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.kinds.cpu.features.access import plain_access
from tilework.kinds.cpu.features.facts import BlockFacts
from tilework.kinds.cpu.features.footprints import Places, Walk, touched_bytes
from tilework.kinds.cpu.features.local import region_visits
from tilework.kinds.cpu.features.scattering import bytes_into
from tilework.kinds.cpu.machine import Machine
from tilework.space.nest import BlockNest
from tilework.space.regions import attached_extents
from tilework.te.expr import Axis, reads

Floats = NDArray[np.float64]
COLD_WEIGHT_BYTES = 1 << 20
_WIDE = 16  # lanes
_KEPT_BYTES, _FEW_ROWS = 1 << 14, 4
"""What a decoder keeps is at least so large, and has so many positions for each row."""
_STOP_CYCLES = 60.0
"""Of the stream of weights, where a sum in pieces is put away and taken up again: 2 to 3 % of what
one row of 576 x 576 takes in pieces of 96. Of several threads others have the memory meanwhile."""
_TURN_BYTES = 1 << 11
"""Of words behind each other, after which their scales follow."""
_FIRST_PASS = 0.75
"""Of what the first of several register tiles waits for weights."""


@frozen(eq=False)
class Traffic:
    """What the accesses of a block move.

    Attributes:
        into: bytes per access into each cache level.
        footprint: of each access, of one outer tile.
        widths, touched: what accesses touch in the states of the walk; see `Walk`.
    """

    into: list[Floats]
    footprint: Floats
    widths: Floats | None = None
    touched: Floats | None = None


def traffic_of(nest: BlockNest, facts: BlockFacts, table: Floats, machine: Machine) -> Traffic:
    """Bytes per access into L1, L2 and L3, and what one outer tile of each access takes.

    What an access brings into a cache is what it touches in the first state of the walk in which
    all accesses together do not fit, as often as the loops around that come to it.

    Args:
        nest: the block's loops.
        facts: of the block.
        table: extents of its loops, as in the nest's own.
        machine: whose caches.
    """
    count, walk = nest.count, facts.walk
    sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
    if nest.block.scatter is not None:
        return _of_terms(nest, facts, machine)
    first = {a: loops.start for a, loops in nest.places}
    widths = walk.widths(walk.spans(nest.by_group(table)), count)
    touched = walk.touched(widths)
    passes = walk.passes(table, first)
    whole = np.add.reduce(touched, axis=0)[:-1]
    room = whole <= np.array(sizes)[:, None, None]
    fits = np.add.reduce(room.view(np.uint8), axis=1, dtype=np.uint8)
    at = fits.astype(np.intp) * count + np.arange(count)
    moved = touched.reshape(len(touched), -1).take(at, axis=1)
    moved *= passes.reshape(2, -1).take(at, axis=1).take(walk.once, axis=0)
    into = [moved[:, level] for level in range(len(sizes))]
    crowded = _crowded_out(walk, widths, touched, whole, fits[1], machine)
    if crowded is not None:
        of, some, states = crowded
        into[1][of, some] = touched[of, states, some] * passes[walk.once[of], states, some]
    for level, near in enumerate(warm(facts, machine)):
        for i in near:  # what a producer has left need not come from beyond
            into[level][i] = np.maximum(into[level][i] - touched[i, -1], 0.0)
    outer = walk.outer_tile({a: table[loops] for a, loops in nest.places})
    within: int | Places = outer
    if nest.block.transform is not None:  # its tiles follow each other along the lines
        within = np.maximum(outer, np.maximum(fits[1], 1).astype(np.intp) - 1)
    strays = 1.0 + machine.stray_lines / walk.run_lines(widths, touched, within)
    moved[:, 1:] *= strays[:, None]
    if nest.block.attached_reductions:
        for per_access in into[1:]:  # a thread's buffer stays in its own caches
            per_access[list(facts.local)] = 0.0
        local = _local_traffic(nest, sizes)
        into = [np.concatenate(both) for both in zip(into, local, strict=True)]
    return Traffic(into, touched[:, outer], widths, touched)


def _of_terms(nest: BlockNest, facts: BlockFacts, machine: Machine) -> Traffic:
    """The traffic of terms that go where they belong."""
    into = []
    sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
    for size, near in zip(sizes, warm(facts, machine), strict=True):
        each = bytes_into(nest.block, facts, size)
        for i in near:
            each[i] = 0.0
        into.append(np.repeat(np.array(each)[:, None], nest.count, axis=1))
    return Traffic(into, into[0])


def _crowded_out(
    walk: Walk,
    widths: Floats,
    touched: Floats,
    whole: Floats,
    fits: NDArray[np.uint8],
    machine: Machine,
) -> tuple[Places, Places, Places] | None:
    """Accesses that stay in L2 for fewer states than all bytes would, candidates, and states.

    An access in rows crowds itself out: a state must fit with as much room as these take; see
    `Runs.room`.
    """
    size, ahead = machine.l2_bytes, machine.stray_lines
    accesses, most = _may_crowd(walk, size, ahead)
    if not len(accesses):
        return None
    count, each = whole.shape[1], touched[0].size
    some = fits.nonzero()[0]
    last = fits[some].astype(np.intp) - 1
    here = last * count + some
    of = accesses[:, None]
    taken = touched.take(of * each + here)
    taken *= most
    taken /= walk.row_lines(of, widths, last, some)
    taken += whole.take(here)
    which, at = (taken > size).nonzero()
    pairs = of, some, state = accesses[which], some[at], last[at]
    states, going = state + 1, np.arange(len(at))
    while len(going):
        here = state * count + some
        taken = walk.runs(of, widths, state, some).room(ahead)
        taken -= 1.0
        taken *= touched.take(of * each + here)
        taken += whole.take(here)
        crowds = (taken > size).nonzero()[0]
        states[going[crowds]] = state[crowds]
        inner = crowds[state[crowds] > 0]
        going, of, some, state = going[inner], of[inner], some[inner], state[inner] - 1
    of, some, last = pairs
    moved = (states <= last).nonzero()[0]
    return of[moved], some[moved], states[moved]


@lru_cache(maxsize=2048)
def _may_crowd(walk: Walk, size: float, ahead: float) -> tuple[Places, Floats]:
    """Accesses that may crowd themselves out, and of how many times their bytes they take most.

    Where a row is one line: of several lines it is so many times less.
    """
    largest = sum(a.tensor_bytes for a in walk.accesses)
    rows = {i: a for i, a in enumerate(walk.accesses) if not a.packed and len(a.shape) > 1}
    most = {i: ahead + a.widest_apart for i, a in rows.items()}
    some = [i for i, n in most.items() if largest + n * rows[i].tensor_bytes > size]
    return np.array(some, np.intp), np.array([most[i] for i in some], np.float64)[:, None]


def _local_traffic(nest: BlockNest, sizes: Sequence[float]) -> list[Floats]:
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
        count = nest.count
        reduce = attached.block.reduce if attached.block is not None else ()
        spans |= {a: np.full(count, float(a.typical)) for a in reduce}
        visits = region_visits(nest, attached)
        for read in reads(attached.source):
            if read.tensor.op in local:
                continue
            access = plain_access(read)
            whole = float(np.prod(access.shape, dtype=np.float64)) * access.element_bytes
            each = visits * touched_bytes(access, spans)
            for level, size in zip(out, sizes, strict=True):
                level.append(np.minimum(each, whole) if whole <= size else each)
    return [np.reshape(level, (-1, count)) for level in out]


@lru_cache(maxsize=2048)
def warm(facts: BlockFacts, machine: Machine) -> list[list[int]]:
    """Accesses whose tensors are in L1, L2 and L3 when the block starts.

    In a network these are the results of the layer before, and of weights those that are small:
    none in L2, in L3 all but large ones, which come from memory. In L1 there are none. Where the
    block was computed just before (`Machine.again`), weights are like other data. What a decoder
    keeps is warm nowhere.
    """
    out: list[list[int]] = [[]]
    l3, kept = machine.l3_bytes * machine.cores, _kept(facts)
    cold = (math.inf, math.inf) if machine.again else (0, COLD_WEIGHT_BYTES)
    for size, weights in zip((machine.l2_bytes, l3), cold, strict=True):
        each = enumerate(facts.accesses)
        some = [i for i, a in each if not (a.packed and a.tensor_bytes >= weights)]
        fit = sum(facts.accesses[i].tensor_bytes for i in some) <= size
        out.append([i for i in some if i not in kept] if fit else [])
    return out


@lru_cache(maxsize=2048)
def followed(facts: BlockFacts, machine: Machine) -> tuple[int, ...]:
    """Accesses to packed weights for which nothing waits in L2.

    Those multiplied as bytes, and those that fit no cache where a run says how many rows it has.
    A panel is read from its first line to its last, and what reads ahead of a core follows: tiles
    whose weights take L2 up to two thirds of their products' time ran at 0.98 to 1.0 of those
    whose weights are in L1, and at 0.86 to 0.93 where both take the same. With 16 narrow vectors
    dense layers lost up to a tenth by this, while convolutions gained a twentieth. Logits of 64
    and 128 rows in float32 (768 -> 50257) took 0.975 of their time before, when their sums waited
    in memory several times; 384 -> 384 took 0.8 to 0.9, 512 -> 512 up to 1.09.
    """
    block, packed = facts.block, [i for i, a in enumerate(facts.accesses) if a.packed]
    if machine.lanes < _WIDE or block.scaled is not None or block.matrix is not None:
        return ()
    if block.dots is None:
        large = machine.l3_bytes * machine.cores
        open_rows = any(a.open for a in block.spatial) and block.op.dtype == "float32"
        return tuple(i for i in packed if open_rows and facts.accesses[i].tensor_bytes > large)
    return () if is_float(block.dots.instruction.result) else tuple(packed)


def _kept(facts: BlockFacts) -> set[int]:
    """Accesses to keys and values of a decoder: long by as much as a run says, read by few rows.

    Between two tokens all weights pass through the caches.
    """
    out = set[int]()
    for i, a in enumerate(facts.accesses):
        rows = [axis.typical for axis in facts.block.spatial if axis not in a.axes]
        long = max((axis.typical for axis in a.axes if axis.open), default=0)
        plain = rows and facts.block.reduce and not (a.packed or a.store or a.slides)
        if plain and a.tensor_bytes >= _KEPT_BYTES and math.prod(rows) * _FEW_ROWS <= long:
            out.add(i)
    return out


def first_pass(
    facts: BlockFacts, traffic: Traffic, numbers: Mapping[Axis, Floats], busy: Floats, m: Machine
) -> Floats | float:
    """Cycles lost because weights come from L3 or memory as the first register tile reads them.

    Only that pass's share of the instructions can hide them. While the tiles that come after it
    find them near, nothing further is on its way. With narrow vectors this was not seen: there
    a pass is what leaves L1.

    Args:
        facts: of the block.
        traffic: of the block.
        numbers: register tiles along each spatial axis.
        busy: cycles of all instructions.
        m: the machine.
    """
    packed = [i for i, a in enumerate(facts.accesses) if a.packed]
    if m.lanes < _WIDE and packed:
        near, far = (np.add.reduce(traffic.into[level][packed], axis=0) for level in (0, 2))
        return _not_hidden(far / m.memory_rate, busy, near / np.maximum(far, 1.0))
    lost: Floats | float = 0.0
    for i in packed:
        access = facts.accesses[i]
        passes: Floats | float = float(access.tensor_bytes)
        for axis, number in numbers.items():
            if axis not in access.axes:
                passes = passes * number
        levels = ((traffic.into[1][i], m.l3_rate), (traffic.into[2][i], m.memory_rate))
        each = [_not_hidden(far / r, busy, passes / np.maximum(far, 1.0)) for far, r in levels]
        lost = lost + np.maximum(*each)
    return np.asarray(_FIRST_PASS * lost)


def stopped(facts: BlockFacts, numbers: Mapping[Axis, Floats], visits: Floats) -> Floats | float:
    """Cycles that weights from memory wait as a register tile is left for its sum's next piece.

    Args:
        facts: of the block.
        numbers: register tiles along each spatial axis.
        visits: of each register tile.
    """
    stops: Floats | float = 0.0
    for access in facts.accesses:
        if access.packed and access.tensor_bytes >= COLD_WEIGHT_BYTES:
            own = [n for axis, n in numbers.items() if axis in access.axes]
            stops = stops + math.prod(own) * (visits - 1.0)
    return _STOP_CYCLES * stops


def in_turns(
    facts: BlockFacts, sizes: Sequence[Floats], cycles: Floats, m: Machine
) -> Floats | float:
    """Cycles that memory loses as one row reads words of few bits and their scales in turns.

    Args:
        facts: of the block.
        sizes: points of a register tile along each spatial axis.
        cycles: that memory takes.
        m: the machine.
    """
    scaled = facts.block.scaled
    if scaled is None or scaled.whole is None:
        return 0.0
    *rows, last = facts.block.spatial
    if any(a.typical > 1 for a in rows):
        return 0.0
    blocks = math.prod(a.typical for a in facts.block.reduce if a not in scaled.axes)
    words = max((a.tensor_bytes for a in facts.accesses if a.packed), default=0)
    turn = words / (last.typical * blocks) * sizes[-1]
    return np.where(turn < _TURN_BYTES, m.turns_lost * cycles, 0.0)


def _not_hidden(cycles: Floats, busy: Floats, passes: Floats) -> Floats:
    """What the instructions of one of several passes leave of cycles that all of them hide."""
    hides = busy / np.maximum(passes, 1.0)
    return np.asarray(np.maximum(cycles - hides, 0.0) - np.maximum(cycles - busy, 0.0))
