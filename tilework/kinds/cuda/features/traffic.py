"""Bytes that a kernel moves between the second-level cache and the device's memory."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.coverage import coverage
from tilework.kinds.cuda.features.facts import Access, BlockFacts, accesses, block_facts
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.memory import elements
from tilework.kinds.cuda.features.mma import wave_bytes
from tilework.kinds.cuda.models import DeviceModel
from tilework.kinds.cuda.tiling import form_of
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis
from tilework.te.tensor import Operation, Placeholder


def memory_bytes(
    nest: BlockNest,
    blocks: Floats,
    outputs: Collection[Operation],
    device: DeviceModel,
    constants: Constants,
) -> Floats:
    """Bytes of a kernel for P rows.

    Inputs and outputs are moved once. What a kernel leaves for the next one stays in the
    second-level cache, if it fits. Tensors that do not fit are read again by each wave of blocks
    that needs them.

    Args:
        nest: the rows.
        blocks: that run at a time.
        outputs: stages whose tensors are the program's results.
        device: whose memory it is.
        constants: of the model.
    """
    kept = device.l2_bytes * constants.l2_kept
    by_tensor: dict[Operation, Floats] = {}
    for access in reads_of(nest.block):
        once = float(access.touched * access.itemsize)
        total = np.full(nest.count, once)
        if once > kept:
            total = np.maximum(total, _by_waves(nest, access, blocks))
        elif not isinstance(access.op, Placeholder):
            total = np.zeros(nest.count)
        by_tensor[access.op] = np.maximum(by_tensor.get(access.op, 0.0), total)
    write = block_facts(nest.block).write
    stored = float(write.touched * write.itemsize)
    leaves = write.op in outputs or stored > kept
    own = np.full(nest.count, stored if leaves else 0.0)
    return np.asarray(sum(by_tensor.values(), own))


def reads_of(block: Block) -> tuple[Access, ...]:
    """What a block reads from memory, attached producers' reads in place of their results."""
    facts: BlockFacts = block_facts(block)
    attached = {a.op: a for a in block.attached}
    out = [a for a in (*facts.reads, *facts.finish_reads) if a.op not in attached]
    for producer in block.attached:
        out += [a for body in producer.bodies for a in accesses(body) if a.op not in attached]
    return tuple(out)


def _by_waves(nest: BlockNest, access: Access, blocks: Floats) -> Floats:
    """Bytes of an access if nothing of it is kept from one wave of blocks to the next."""
    if form_of(nest.block) == "mma":
        return wave_bytes(nest, access, blocks)
    if form_of(nest.block) != "tiled":
        return np.zeros(nest.count)
    axes = nest.block.spatial
    grid = [nest.tiles[a][0] * 1.0 for a in axes]
    total = np.prod(grid, axis=0)
    waves = np.ceil(total / blocks)
    of_wave = coverage(grid, np.minimum(blocks, total))
    covered: dict[Axis, Floats] = {}
    for a in nest.block.reduce:
        covered[a] = np.full(nest.count, float(a.typical))
    for a, n in zip(axes, of_wave, strict=True):
        tile = np.prod(nest.tiles[a][1:], axis=0)
        covered[a] = np.minimum(n * tile, a.typical)
    return np.asarray(waves * elements(access, covered, nest.count) * access.itemsize)
