"""Register tiles that a matrix unit of a CPU computes: those that are large for vector registers.

The sums of such a tile stay in the unit, 16 rows of 16 columns a block, while terms are added by
64 (of bytes) at a time, and then go to memory, where the epilogue finds them::

    for k2 in k / 64:  tile[m, n] += a[m, 64 * k2 + t] * w[64 * k2 + t, n]     m, n in 32, t in 64

Operands are read as they lie for an instruction on groups (`tilework.space.dots`): neighbours of k
in the data are a row of the unit's left operand, and packed weights, groups of every column one
behind the other, are a row of its right one. So one packing serves tiles of both kinds, and a row
of decisions says by the size of its tile who computes it. Weights of fewer bits are unpacked for
a tile, a block at a time, and the unit's sums of a block are scaled (`tilework.space.scaled`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilework.index.form import Form
from tilework.index.strides import row_major
from tilework.space.blocks import Block
from tilework.space.capabilities import Dots, MatrixUnit, Scaled
from tilework.space.dots import BytesOfWord
from tilework.space.instructions import Instruction
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.tables import divisors
from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, Read, Reduce, walk

REGISTERS = 8
"""Of a unit: for sums, for the operands of one side, and for what passes by of the other."""
_LEAST_GROUPS = 4
"""Fewer groups of terms at a time are not worth an instruction."""


def matrix_unit(instructions: Iterable[Instruction], registers: int) -> Capability:
    """Sets a block's `MatrixUnit` where one of the instructions fits.

    Args:
        instructions: of the unit.
        registers: of vectors, which tiles that are not the unit's take at most.
    """
    return partial(_with_unit, tuple(instructions), registers)


def _with_unit(instructions: tuple[Instruction, ...], registers: int, block: Block) -> Block:
    dots, body = block.dots, block.body
    if dots is None or block.bounds or not isinstance(body, Reduce):
        return block
    if block.scaled is not None:
        return _of_scaled_sums(instructions, registers, block, block.scaled)
    one, *others, last = dots.instruction, *block.spatial
    factors = one.factors(body.source)
    chosen = next((i for i in instructions if _types(i) == _types(one)), None)
    groups = dots.axis.points // dots.count
    if chosen is None or factors is None or last.open or not _enough(chosen, groups, dots.count):
        return block
    left, right = factors
    if one.left == one.right and not _moves(right, last):
        left, right = right, left
    plain = isinstance(left, Read) and isinstance(right, Read) and _moves(right, last)
    if not isinstance(left, Read) or not plain or any(linear(i) is None for i in left.indices):
        return block
    rows = frozenset(a for a in others if _moves(left, a) and not _moves(right, a))
    return replace(block, matrix=MatrixUnit(chosen, rows, registers))


def _of_scaled_sums(
    instructions: tuple[Instruction, ...], registers: int, block: Block, scaled: Scaled
) -> Block:
    """The same where weights are bits of words, which a nest unpacks for a whole tile."""
    dots, (*others, last) = block.dots, block.spatial
    assert dots is not None
    factors = dots.instruction.factors(scaled.terms)
    if factors is None or last.open or scaled.whole is None:
        return block
    weight, data = factors
    if BytesOfWord.of(weight) is None:
        weight, data = data, weight
    types = data.dtype, weight.dtype, dots.instruction.result
    chosen = next((i for i in instructions if _types(i) == types), None)
    words = BytesOfWord.of(weight)
    if chosen is None or words is None or not isinstance(data, Read) or not _moves(weight, last):
        return block
    index = linear(data.indices[-1])
    if index is None or not _in_a_row(index, scaled.axes) or _moves(data, last):
        return block
    if not _enough(chosen, _groups_of_block(scaled, dots), dots.count):
        return block
    rows = frozenset(a for a in others if _moves(data, a) and not _moves(weight, a))
    return replace(block, matrix=MatrixUnit(chosen, rows, registers))


def _in_a_row(index: Form[Axis], axes: tuple[Axis, ...]) -> bool:
    """Whether an index runs through all points of axes in order."""
    strides = row_major([a.points for a in axes])
    return all(index.step(a) == n for a, n in zip(axes, strides, strict=True))


def _groups_of_block(scaled: Scaled, dots: Dots) -> int:
    return math.prod(a.points for a in scaled.axes) // dots.count


def _types(i: Instruction) -> tuple[str, str, str]:
    return i.left, i.right, i.result


def _moves(e: Expr, axis: Axis) -> bool:
    return any(node is axis for node in walk(e))


def in_unit(block: Block, tiles: Sequence[Ints]) -> NDArray[np.bool_]:
    """Which register tiles, by the sizes of each spatial axis, the matrix unit computes.

    Those that leave too few of the vector registers, and that the unit's hold.
    """
    unit, (*others, last) = block.matrix, tiles
    assert unit is not None
    outer, rows = outer_and_rows(others, len(last))
    fits = np.ones(len(last), bool)
    for axis, size in zip(block.spatial, others, strict=False):
        fits &= (size == 1) | (axis in unit.rows)
    high, wide = outer * -(-rows // unit.instruction.rows), -(-last // unit.instruction.columns)
    fits &= high * wide + np.minimum(high, wide) + 2 <= REGISTERS
    return np.asarray(fits & (outer * rows * wide + wide > unit.vectors))


def outer_and_rows(sizes: Sequence[Ints], count: int) -> tuple[Ints, Ints]:
    """Of register tiles by the sizes of their row axes: points around a block's rows, and these.

    The rows of a block lie along the last axis that has several points.
    """
    outer, rows = np.ones((2, count), np.int64)
    for size in sizes:
        several = size > 1
        outer = np.where(several, outer * rows, outer)
        rows = np.where(several, size, rows)
    return outer, rows


def groups_at_once(instruction: Instruction, groups: int, count: int) -> int:
    """Of so many groups of ``count`` terms, how many the unit's instruction takes."""
    return max(d for d in divisors(groups) if d <= instruction.terms // count)


def _enough(instruction: Instruction, groups: int, count: int) -> bool:
    return groups_at_once(instruction, groups, count) >= _LEAST_GROUPS


def groups_of(nest: BlockNest) -> Ints:
    """`groups_at_once` of every row of a block with a matrix unit."""
    dots, unit, scaled = nest.block.dots, nest.block.matrix, nest.block.scaled
    assert dots is not None and unit is not None
    if scaled is not None:
        groups = _groups_of_block(scaled, dots)
        return np.full(nest.count, groups_at_once(unit.instruction, groups, dots.count))
    groups = np.maximum(nest.tiles[dots.axis][-1] // dots.count, 1)
    numbers, which = np.unique(groups, return_inverse=True)
    one = unit.instruction
    return np.array([groups_at_once(one, int(n), dots.count) for n in numbers])[which]


def worthwhile(nest: BlockNest) -> NDArray[np.bool_]:
    """Which rows give an instruction of the matrix unit enough terms.

    Scaled sums are those of all blocks at once.
    """
    enough = groups_of(nest) >= _LEAST_GROUPS
    if nest.block.scaled is not None:
        for axis in nest.block.reduce:
            enough = enough & (nest.tiles[axis][-1] == axis.points)
    return np.asarray(enough)
