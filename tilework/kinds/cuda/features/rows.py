"""Counts of row chains: a row stays in its lanes' registers from its first stage to its result."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import dtype_bytes
from tilework.index.extents import typicals
from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.features.across import add_combine
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import (
    Access,
    accesses,
    float_calls,
    float_operations,
)
from tilework.kinds.cuda.features.lanes import Floats, Lanes, digits
from tilework.kinds.cuda.features.memory import add_loads, add_stores
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.row_chain import RowChain, chain_of, held_registers, per_thread, width
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis, Reduce
from tilework.te.tensor import Compute


def rows_counts(nest: BlockNest, constants: Constants) -> Counts:
    """Counts of a row chain."""
    chain, count = chain_of(nest.block), nest.count
    counts = Counts.none(geometry(nest))
    lanes, groups, together = nest.values["lanes"], nest.values["groups"], width(nest)
    own = np.minimum(per_thread(nest), chain.terms / lanes)  # some lanes may have nothing to do
    where = _coordinates(nest, chain, lanes, together)
    loaded: set[object] = set()
    held = chain.held()
    for stage in chain.stages:
        body = chain.bodies[stage]
        reduces = isinstance(body, Reduce)
        source = body.source if isinstance(body, Reduce) else body
        points = own if reduces or chain.wide(stage) else np.ones(count)
        counts.multiply_adds += points * max(float_operations(source), 1.0)
        counts.calls += points * float_calls(source)
        counts.instructions += points * constants.address_instructions / together
        at = {a: where[p] for a, p in chain.places[stage].items() if p is not None}
        for access in accesses(source):
            if access.op in chain.bodies:
                continue
            key = (access.op, tuple(_key(chain, stage, i) for i in access.indices))
            if key in loaded:
                continue
            if any(access.op is op for op, _ in held):
                loaded.add(key)
            wide = any(chain.places[stage].get(a) in chain.columns for a in access.axes)
            loads = own / together if wide else np.ones(count)
            unique = groups * (chain.terms if wide else 1.0) * access.itemsize
            addresses = access.addresses(at, count)
            add_loads(counts, access, addresses, loads, unique * 1.0, constants)
        if reduces:
            add_combine(counts, lanes, np.ones(count), constants)
            dependent = own / together * constants.multiply_add_latency
            counts.chain += dependent
    _finish(nest, chain, counts, own, together, where)
    counts.chain += constants.start + constants.memory_latency
    counts.fetches, counts.terms = np.ones(count), own
    counts.rounds = np.ones(count)
    counts.registers = held_registers(nest) + constants.base_registers
    counts.live = held_registers(nest) + 16.0
    return counts


def _finish(
    nest: BlockNest,
    chain: RowChain,
    counts: Counts,
    own: Floats,
    together: Ints,
    where: dict[Axis, Lanes],
) -> None:
    anchor = chain.anchor
    places = chain.places[anchor]
    at = {a: where[p] for a in anchor.axes if (p := places[a]) is not None}
    write = Access(anchor, anchor.axes, typicals(anchor.shape), dtype_bytes(anchor.dtype))
    once = np.minimum(WARP / nest.values["lanes"], 1.0)
    stores = own / together if chain.wide(anchor) else once
    add_stores(counts, write, write.addresses(at, nest.count), stores, together)


def _coordinates(
    nest: BlockNest, chain: RowChain, lanes: Ints, together: Ints
) -> dict[Axis, Lanes]:
    """Rows and first columns of a warp's threads."""
    ones = np.ones(nest.count, np.int64)
    lane = np.arange(WARP) % np.minimum(lanes, WARP)[:, None]
    extents = [ones * a.typical for a in chain.columns]
    extents[-1] = extents[-1] // together
    columns = [np.take_along_axis(d, lane, axis=1) for d in digits(extents)]
    columns[-1] = columns[-1] * together[:, None]
    rows = digits([ones * a.typical for a in chain.rows], lanes)
    return dict(zip((*chain.columns, *chain.rows), (*columns, *rows), strict=True))


def _key(chain: RowChain, stage: Compute, index: object) -> object:
    return chain.places[stage].get(index, index) if isinstance(index, Axis) else str(index)
