"""What a row decides about a block on a GPU; `tilework.kinds.cuda.tiling` has the forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, assert_never

import numpy as np

from tilework.kinds.cuda.mma import tile as mma
from tilework.kinds.cuda.staging import (
    DIRECT,
    REDUCE_FIRST,
    ROW_ORDER,
    Operand,
    operands,
    zero_behind,
)
from tilework.kinds.cuda.tiling import form_of
from tilework.space.blocks import Block
from tilework.space.decision import Open, Rows
from tilework.space.tables import column, divisors, register_tiles
from tilework.te.expr import Axis

_VIRTUAL = (1, 2, 4, 8)
_POWERS = tuple(2**n for n in range(9))
_LARGEST_ODD = 64
_BATCH_THREADS = (1, 2, 4)
_LARGEST_BATCH = 8
"""Threads along a batch axis of an odd extent."""
_REGISTER = (1, 2, 3, 4, 5, 6, 7, 8, 14, 16)
_LAST_REGISTER = (1, 2, 4, 8)
_MOST_HELD = 16
"""Points of one axis that a thread computes at a time."""
_LARGEST_INNER = 64
_LEAST_INNER = 8
"""Terms that a fetch should have at least."""
_WITH_REST = (8, 16, 32)
"""Terms of fetches of which the last one reaches over the end."""
_OVERHANG = 1.34
BLOCK_SIZES = (32, 64, 128, 256, 512)
UNROLL = (1, 4, 16, 64)
REGISTERS = (0, 64, 96, 128, 168)
"""Registers a thread may use, written as launch bounds; 0 leaves it to the compiler."""


def decisions(block: Block, target: Any) -> list[Open]:
    """What a row decides about a block, in the order of its columns."""
    match form_of(block):
        case "tiled":
            return _tiled(block)
        case "direct" | "transform":
            return _direct(block)
        case "points":
            return _points(block)
        case "across":
            lanes, groups = [2**n for n in range(1, 11)], [2**n for n in range(6)]
            return [_open("lanes", lanes), _open("groups", groups), _open("unroll", (1, 2, 4, 8))]
        case "rows":
            lanes, groups = [2**n for n in range(11)], [2**n for n in range(9)]
            return [_open("lanes", lanes), _open("groups", groups)]
        case "ragged":
            return _ragged(block)
        case "mma":
            return mma.decisions(block)
        case form:
            assert_never(form)


@lru_cache(maxsize=1024)
def thread_counts(block: Block) -> Rows:
    """The numbers of threads that tiles of a block may have, whatever their other extents."""
    choices = _tiled(block) if form_of(block) == "tiled" else _ragged(block)
    out = np.ones(1, np.int32)
    for choice in choices:
        if choice.axis is not None and choice.axis.kind == "spatial":
            out = np.unique(np.multiply.outer(out, np.unique(choice.choices[:, -2])))
    return out


def _tiled(block: Block) -> list[Open]:
    read, out = operands(block), []
    for axis in block.spatial:
        reused = not all(axis in o.axes for o in read)
        table = _spatial(axis, axis is block.spatial[-1]) if reused else _batch(axis)
        out.append(Open(axis.name, table, "tile", axis))
    for axis in block.reduce:
        out.append(Open(axis.name, column(_terms(axis, axis in zero_behind(block))), "tile", axis))
    for i, operand in enumerate(read):
        name = operand.read.tensor.name
        out += [
            Open(f"{name} staged", column(_modes(operand)), f"stage{i}"),
            Open(f"{name} padding", column((0, 1, 4)), f"pad{i}"),
            Open(f"{name} width", column((1, 2, 4)), f"width{i}"),
        ]
    return [*out, _open("unroll", UNROLL), _open("stages", (1, 2)), _open("registers", REGISTERS)]


def _modes(operand: Operand) -> tuple[int, ...]:
    if not operand.stageable:
        return (DIRECT,)
    turned = operand.order(REDUCE_FIRST) != operand.order(ROW_ORDER)
    staged = (ROW_ORDER, REDUCE_FIRST) if turned else (ROW_ORDER,)
    return staged if operand.attached is not None else (DIRECT, *staged)


def _terms(axis: Axis, zero_behind: bool) -> list[int]:
    """Terms of one fetch: divisors; powers of two where none is of use and it may overhang."""
    terms = [d for d in divisors(axis.typical) if d <= _LARGEST_INNER]
    if zero_behind and axis.typical > _LARGEST_INNER and terms[-1] < _LEAST_INNER:
        terms += _WITH_REST
    return terms


def _spatial(axis: Axis, last: bool) -> Rows:
    """(virtual, thread, register) of a spatial axis whose tiles do not overhang it by much.

    Threads come in powers of two, or divide the axis; those of the last axis, whose neighbours are
    neighbours in memory, make up whole warps together with others.
    """
    registers = _LAST_REGISTER if last else _REGISTER
    odd = () if last else (d for d in divisors(axis.typical) if d <= _LARGEST_ODD)
    rows = [
        (v, t, r)
        for v in _VIRTUAL
        for t in sorted({*_POWERS, *odd})
        for r in registers
        if (v == 1 or t > 1) and v * r <= _MOST_HELD
        if -(-axis.typical // (v * t * r)) * v * t * r <= _OVERHANG * axis.typical
    ]
    return np.array(rows, np.int32).reshape(-1, 3)


def _batch(axis: Axis) -> Rows:
    """(1, thread, 1) of an axis that every operand varies with: nothing is reused along it."""
    even = [t for t in _BATCH_THREADS if axis.typical % t == 0]
    threads = even if len(even) > 1 else [d for d in divisors(axis.typical) if d <= _LARGEST_BATCH]
    return np.array([(1, t, 1) for t in threads], np.int32).reshape(-1, 3)


def _direct(block: Block) -> list[Open]:
    out = []
    for axis in block.spatial:
        fixed = block.op.attrs.get("tile", {}).get(axis.name)
        sizes: Sequence[int]
        if fixed is not None:
            sizes = (int(fixed),)
        elif block.transform is not None:  # a thread computes a tile of it in one channel
            sizes = (axis.typical if axis in block.const_axes else 1,)
        elif axis is block.spatial[-1]:
            sizes = [r for r in (1, 2, 4) if r <= axis.typical]
        else:
            sizes = register_tiles(axis.typical, 8)
        out.append(Open(axis.name, column(sizes), "tile", axis))
    return [*out, _open("threads", BLOCK_SIZES), _open("unroll", UNROLL)]


def _ragged(block: Block) -> list[Open]:
    """Tiles of (thread, register); those of registers have one number of terms."""
    out = []
    for axis in block.spatial:
        step, last = block.ragged.steps.get(axis, 0), axis is block.spatial[-1]
        registers = [r for r in (1, 2, 4, 8) if step % r == 0 and r <= axis.typical]
        odd = (d for d in divisors(axis.typical) if d <= _LARGEST_ODD)
        rows = [
            (t, r)
            for t in sorted({*_POWERS, *odd})
            for r in (registers if not last or step else registers[:3])
            if -(-axis.typical // (t * r)) * t * r <= _OVERHANG * axis.typical
        ]
        out.append(Open(axis.name, np.array(rows, np.int32).reshape(-1, 2), "tile", axis))
    return [*out, _open("unroll", (1, 4, 16))]


def _points(block: Block) -> list[Open]:
    out = []
    for axis in block.spatial[-1:]:
        sizes = [r for r in (1, 2, 4) if r <= axis.typical]
        out.append(Open(axis.name, column(sizes), "tile", axis))
    return [*out, _open("threads", BLOCK_SIZES), _open("serial", (1, 2, 4))]


def _open(name: str, choices: Sequence[int]) -> Open:
    return Open(name, column(choices), name)
