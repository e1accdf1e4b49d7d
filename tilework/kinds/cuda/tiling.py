"""How stages are tiled for GPUs, and what form of kernel that makes."""

from __future__ import annotations

from typing import Literal, get_args

from tilework.space.blocks import Block
from tilework.space.levels import Level, Levels, Role, Tiling

Form = Literal["tiled", "mma", "across", "rows", "direct", "transform", "ragged", "points"]
FORMS: tuple[Form, ...] = get_args(Form)
"""In the order of the features' columns."""

_GRID = Level("S", Role.grid)
_VIRTUAL = Level("S", Role.virtual)
_THREAD = Level("S", Role.thread)
_REGISTER = Level("S", Role.register)
_FETCH = Level("R", Role.serial)
_INNER = Level("R", Role.inner)
_LANES = Level("R", Role.thread)

TILED = Levels((_GRID, _VIRTUAL, _THREAD, _FETCH, _INNER, _REGISTER), reuse=True)
"""Blocks compute tiles from operands that they stage in shared memory, one fetch at a time."""
MMA = Levels((_GRID, _THREAD, _FETCH, _INNER, _REGISTER), reuse=True)
"""The same on tensor cores: the thread level is that of warps."""
ACROSS = Levels((_GRID, _LANES))
"""Neighbouring threads share the terms of a point and combine what they have."""
ROWS = Levels((_GRID, _THREAD))
"""Neighbouring threads hold a row in their registers, from its first reduction to its result."""
DIRECT = Levels((_GRID, _INNER, _REGISTER))
"""Threads compute small tiles straight from memory."""
RAGGED = Levels((_GRID, _THREAD, _INNER, _REGISTER))
"""Reductions whose number of terms is data."""
POINTS = Levels((_GRID, _REGISTER))
"""Threads compute vectors of neighbouring elements."""

STAGED_DEPTH = 4
"""Where a producer is computed that is staged: inside the loop over fetches of `TILED`."""

TILING = Tiling(reuse=TILED, reduction=DIRECT, elementwise=POINTS, ragged=RAGGED)

_BY_LEVELS: dict[Levels, Form] = {
    TILED: "tiled", MMA: "mma", ACROSS: "across", ROWS: "rows", DIRECT: "direct",
    RAGGED: "ragged", POINTS: "points",
}  # fmt: skip


def form_of(block: Block) -> Form:
    """The form of a block's kernel."""
    if block.transform is not None:
        return "transform"
    return _BY_LEVELS[block.levels]
