"""Rows that describe the same program, brought to one form."""

from __future__ import annotations

import numpy as np

from tilework.index.strides import in_order
from tilework.kinds.cuda.decisions import REGISTERS
from tilework.kinds.cuda.expansion import expanded_terms
from tilework.kinds.cuda.geometry import geometry, least_blocks
from tilework.kinds.cuda.staging import (
    DIRECT,
    REDUCE_FIRST,
    ROW_ORDER,
    Box,
    Operand,
    box,
    operands,
    spans,
)
from tilework.kinds.cuda.tiling import form_of
from tilework.space.nest import BlockNest, Ints


def canonical(nest: BlockNest) -> dict[str, Ints]:
    """The columns of a block without what has no effect.

    Padding and width mean nothing for an operand that is read directly, nor does padding behind
    the only row of a tile, nor another order of its only dimension. A fetch is never wider than
    memory's alignment allows. Terms are not expanded beyond the loops that there are. Bounds of
    registers that allow as many resident blocks are the same bounds.
    """
    out: dict[str, Ints] = {}
    if "unroll" in nest.values and nest.block.reduce:
        out["unroll"] = expanded_terms(nest)
    if "registers" in nest.values:
        out["registers"] = _registers(nest)
    if form_of(nest.block) == "tiled":
        span = spans(nest)
        for i, operand in enumerate(operands(nest.block)):
            if operand.stageable:
                region = box(nest, i, operand, span)
                direct = nest.values[f"stage{i}"] == DIRECT
                pad = np.where(direct, 0, _padding(nest, i, operand, region))
                out[f"stage{i}"] = _mode(nest, i, operand, region, pad)
                out[f"pad{i}"] = pad
                out[f"width{i}"] = np.where(direct, 1, region.width)
            else:
                out[f"pad{i}"] = np.zeros(nest.count, np.int64)
                out[f"width{i}"] = np.ones(nest.count, np.int64)
    return out


def _mode(nest: BlockNest, number: int, operand: Operand, region: Box, pad: Ints) -> Ints:
    """How an operand is staged: as it lies in memory, where another order changes nothing."""
    plain = in_order(region.extents, operand.order(ROW_ORDER), pad)
    turned = in_order(region.extents, operand.order(REDUCE_FIRST), pad)
    same = np.ones(nest.count, bool)
    for extent, a, b in zip(region.extents, plain, turned, strict=True):
        same &= (extent == 1) | (a == b)
    mode = nest.values[f"stage{number}"]
    return np.where((mode == REDUCE_FIRST) & same, ROW_ORDER, mode)


def _padding(nest: BlockNest, number: int, operand: Operand, region: Box) -> Ints:
    """Padding, where there is a row for it to lie behind."""
    mode = nest.values[f"stage{number}"]
    rows = np.zeros(nest.count, bool)
    for kind in (1, 2):
        others = np.zeros(nest.count, bool)
        for d in operand.order(kind)[:-1]:
            others |= region.extents[d] > 1
        rows |= (mode == kind) & others
    return np.where(rows, nest.values[f"pad{number}"], 0)


def _registers(nest: BlockNest) -> Ints:
    """The most registers, of those that a row can name, with the same launch bounds."""
    threads = geometry(nest).threads
    blocks = least_blocks(threads, nest.values["registers"])
    out = np.zeros(nest.count, np.int64)
    for registers in REGISTERS:
        same = (blocks > 0) & (least_blocks(threads, np.full_like(threads, registers)) == blocks)
        out = np.where(same, registers, out)
    return out
