"""Rows that describe the same program, brought to one form."""

from __future__ import annotations

import numpy as np

from tilework.kinds.cuda.decisions import REGISTERS
from tilework.kinds.cuda.expansion import expanded_terms
from tilework.kinds.cuda.geometry import geometry, least_blocks
from tilework.kinds.cuda.staging import DIRECT, Box, Operand, box, operands, spans
from tilework.kinds.cuda.tiling import form_of
from tilework.space.nest import BlockNest, Ints


def canonical(nest: BlockNest) -> dict[str, Ints]:
    """The columns of a block without what has no effect.

    Padding and width mean nothing for an operand that is read directly, nor padding behind the
    only row of a tile; a fetch is never wider than memory's alignment allows; terms are not
    expanded beyond the loops that there are; bounds of registers that allow as many resident
    blocks are the same bounds.
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
                found = box(nest, i, operand, span)
                direct = nest.values[f"stage{i}"] == DIRECT
                out[f"pad{i}"] = np.where(direct, 0, _padding(nest, i, operand, found))
                out[f"width{i}"] = np.where(direct, 1, found.width)
            else:
                out[f"pad{i}"] = np.zeros(nest.count, np.int64)
                out[f"width{i}"] = np.ones(nest.count, np.int64)
    return out


def _padding(nest: BlockNest, number: int, operand: Operand, found: Box) -> Ints:
    """Padding, where there is a row for it to lie behind."""
    mode = nest.values[f"stage{number}"]
    rows = np.zeros(nest.count, bool)
    for kind in (1, 2):
        others = np.zeros(nest.count, bool)
        for d in operand.order(kind)[:-1]:
            others |= found.extents[d] > 1
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
