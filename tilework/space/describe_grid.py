"""The loop tree of a block whose threads come in blocks of a grid, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tilework.space.levels import Role
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Reduce

UPDATE = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}
_SIDE_BY_SIDE = (Role.grid, Role.virtual, Role.thread)


def has_grid(nest: BlockNest) -> bool:
    """Whether the block's outermost loops are a grid."""
    return nest.block.levels.items[0].role == Role.grid


def tiled_by_level(nest: BlockNest) -> bool:
    """Whether every level of the block has its own tiles; else columns of another kind say it."""
    block = nest.block
    return all(len(nest.tiles[a]) == block.spatial_levels for a in block.spatial) and all(
        len(nest.tiles[a]) == block.reduce_levels for a in block.reduce
    )


def fused(nest: BlockNest) -> Iterator[tuple[Role, list[str], int]]:
    """Levels whose loops run side by side: role, names of the loops, and how many there are."""
    for level, number in nest.block.levels.numbered:
        if level.role in _SIDE_BY_SIDE and level.kind == "S":
            axes = [a for a in nest.block.axes_of(level.kind) if _extent(nest, a, number) > 1]
            total = math.prod(_extent(nest, a, number) for a in axes)
            if total > 1:
                yield level.role, [f"{a.name}.{number}" for a in axes], total


def grid_tree(nest: BlockNest) -> Iterator[str]:
    """The loop tree; loops of one iteration are left out."""
    block = nest.block
    reduces = isinstance(block.body, Reduce)
    if not tiled_by_level(nest):
        yield f"{block.result.name} = ... (tiled as above)"
        return
    indent, begun = 0, False
    inside = 0  # of the threads
    for depth, (level, number) in enumerate(block.levels.numbered, 1):
        if level.kind == "R" and reduces and not begun:
            yield "  " * indent + f"{block.op.name} = init{_tile(nest)}"
            begun, inside = True, indent
        axes: Sequence[Axis] = block.axes_of(level.kind)
        if level.role in _SIDE_BY_SIDE:
            names = [f"{a.name}.{number}@" for a in axes if _extent(nest, a, number) > 1]
            total = math.prod(_extent(nest, a, number) for a in axes)
            if total > 1:
                yield "  " * indent + f"{level.role} {''.join(names)} (0,{total})"
                indent += 1
        elif level.role != Role.register:
            for axis in axes:
                if _extent(nest, axis, number) > 1:
                    name = f"{axis.name}.{number}"
                    yield "  " * indent + f"for {name} (0,{_extent(nest, axis, number)})"
                    indent += 1
        for attached in block.attached:
            if attached.depth == depth:
                yield "  " * indent + f"{attached.op.name} = ..."
    if isinstance(block.body, Reduce):
        yield "  " * indent + f"{block.op.name} {UPDATE[block.body.kind]} ...{_tile(nest)}"
        indent = inside
    if not reduces or block.epilogue is not None:
        yield "  " * indent + f"{block.result.name} = ...{_tile(nest)}"


def _extent(nest: BlockNest, axis: Axis, level: int) -> int:
    return int(nest.tiles[axis][level][0])


def _tile(nest: BlockNest) -> str:
    """The points of a thread's registers."""
    block = nest.block
    if block.levels.items[-1].role != Role.register or not block.spatial:
        return ""
    sizes = [_extent(nest, a, block.spatial_levels - 1) for a in block.spatial]
    return f"  {'x'.join(map(str, sizes))} in registers" if math.prod(sizes) > 1 else ""
