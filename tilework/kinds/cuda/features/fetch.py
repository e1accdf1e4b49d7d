"""The fetch of an operand: all threads of a block bring its tile to shared memory together."""

from __future__ import annotations

import numpy as np

from tilework.index.extents import typicals
from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import Access, accesses
from tilework.kinds.cuda.features.lanes import (
    SECTOR_BYTES,
    Floats,
    digits,
    sectors,
    wavefronts,
)
from tilework.kinds.cuda.staging import DIRECT, Box, Operand, passes, whole_stores
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis


def add_fetch(
    counts: Counts,
    fetches: Floats,
    nest: BlockNest,
    number: int,
    operand: Operand,
    shape: Box,
    asynchronous: bool,
    constants: Constants,
) -> Floats:
    """The fetch of an operand, where it is staged; returns vectors of a thread in one fetch.

    Args:
        counts: where it is added.
        fetches: of a block.
        nest: the rows.
        number: of the operand.
        operand: what is fetched.
        shape: of its tile.
        asynchronous: whether the machine has copies that pass registers by.
        constants: of the model.
    """
    mode = nest.values[f"stage{number}"]
    staged = mode != DIRECT
    extents = list(shape.extents)
    extents[-1] = extents[-1] // shape.width
    coordinates = digits(extents)
    coordinates[-1] = coordinates[-1] * shape.width[:, None]
    vectors = np.ones(nest.count)
    for extent in extents:
        vectors = vectors * extent
    rounds = np.ceil(vectors / counts.geometry.threads)
    warps = vectors / WARP * fetches  # that have something to do, in all rounds
    touched, guards = np.zeros(nest.count), 0
    for source, axes in _sources(operand):
        where = dict(zip(axes, coordinates, strict=True))
        touched = touched + sectors(source.addresses(where, nest.count), source.itemsize)
        guards = max(guards, source.guards)
    at = np.zeros((nest.count, WARP), np.int64)
    for coordinate, stride in zip(coordinates, shape.strides, strict=True):
        at += coordinate * stride[:, None]
    store = np.where(whole_stores(shape), shape.width, 1)
    pieces = shape.width / store
    waves = wavefronts(at, store, operand.itemsize) * pieces
    moved = warps * touched * SECTOR_BYTES
    per_round = constants.fetch_instructions + constants.guard_instructions * guards
    passing = passes(operand, shape) & (nest.values["stages"] > 1) & asynchronous
    counts.sts += np.where(staged & ~passing, rounds * fetches * pieces, 0.0)
    counts.ldg += np.where(staged, rounds * fetches, 0.0)
    counts.shared_wavefronts += np.where(staged, warps * waves, 0.0)
    counts.l2_bytes += np.where(staged, moved, 0.0)
    counts.l1_cycles += np.where(staged, moved / constants.l1_bytes, 0.0)
    counts.instructions += np.where(staged, rounds * fetches * per_round, 0.0)
    ideal = np.maximum(shape.width * operand.itemsize * WARP / SECTOR_BYTES, 1.0)
    counts.put(f"coalescing_{number}", np.where(staged, touched / ideal, 0.0))
    counts.put(f"fetch_rounds_{number}", np.where(staged, rounds, 0.0))
    counts.put(f"fetch_width_{number}", np.where(staged, shape.width, 0.0))
    counts.put(f"store_waves_{number}", np.where(staged, waves, 0.0))
    counts.put(f"box_{number}", np.where(staged, shape.reach, 0.0))
    return rounds


def _sources(operand: Operand) -> list[tuple[Access, tuple[Axis, ...]]]:
    """What is read to stage an element, in axes that stand for its dimensions."""
    if operand.attached is not None:
        axes = operand.attached.axes
        return [(access, axes) for access in accesses(operand.attached.source)]
    axes = tuple(Axis("int32", f"d{d}", n, "spatial") for d, n in enumerate(operand.shape))
    op = operand.read.tensor.op
    return [(Access(op, axes, typicals(operand.shape), operand.itemsize), axes)]
