"""A schedule as text: its steps with concrete numbers, then the loop tree they lead to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tilework.space.blocks import Attached, Block
from tilework.space.describe_grid import UPDATE, fused, grid_tree, has_grid, tiled_by_level
from tilework.space.levels import Role
from tilework.space.matrix_unit import groups_of, in_unit
from tilework.space.nest import BlockNest
from tilework.space.packings import packings
from tilework.space.plan import Inlined, StagePlan
from tilework.space.regions import attached_extents
from tilework.te.expr import Axis, Reduce, reads
from tilework.te.tensor import Compute, Placeholder


def describe(
    title: str,
    form: str,
    plans: Mapping[Compute, StagePlan],
    cuts: Mapping[str, str],
    nests: Sequence[BlockNest],
    notes: Sequence[Sequence[str]],
) -> str:
    """A schedule as text.

    Args:
        title: of which sketch it is.
        form: what the DAG is if it is not the task's own; empty if it is.
        plans: what becomes of each stage.
        cuts: how reductions were cut into partial results, in words, by name.
        nests: of one row.
        notes: of each nest, what the kind of machine says of the row; see `Space.notes`.
    """
    blocks = [nest.block for nest in nests]
    lines = [title, *([f"  {form}"] if form else [])]
    for op, plan in plans.items():
        if isinstance(plan.place, Inlined):
            lines.append(f"  inline {op.name}")
    lines += [f"  rfactor {name}: {cut}" for name, cut in cuts.items()]
    for nest, more in zip(nests, notes, strict=True):
        lines += [f"  {text}" for text in _steps(blocks, nest)]
        lines += [f"    {text}" for text in more]
    names = dict.fromkeys(
        r.tensor.name
        for block in blocks
        for body in (
            block.body,
            block.epilogue_body,
            *(b for a in block.attached for b in a.bodies),
        )
        if body is not None
        for r in reads(body)
        if isinstance(r.tensor.op, Placeholder)
    )
    lines.append(f"Placeholder: {', '.join(names)}")
    for nest in nests:
        lines += grid_tree(nest) if has_grid(nest) else _tree(nest)
    return "\n".join(lines) + "\n"


def _extents(nest: BlockNest, axis: Axis) -> list[int]:
    return [int(t[0]) for t in nest.tiles[axis]]


def _loop_name(axis: Axis, level: int) -> str:
    return f"{axis.name}.{level}"


def _steps(blocks: Sequence[Block], nest: BlockNest) -> Iterator[str]:
    block = nest.block
    yield f"{block.op.name}: tile {block.structure}"
    for axis in (*block.spatial, *block.reduce):
        tiles = _extents(nest, axis)
        over = math.prod(tiles) - axis.typical
        tail = f" ({over} over)" if over else ""
        if len(tiles) > 1:
            yield f"  split {axis.name} {axis.typical} -> {', '.join(map(str, tiles))}{tail}"
    if has_grid(nest):
        yield from _grid_steps(nest)
        return
    yield f"  reorder {' '.join(_loop_name(*loop) for loop in block.loops)}"
    parallel = block.parallel_loops[: int(nest.parallel[0])]
    total = math.prod(_extents(nest, a)[level] for a, level in parallel)
    if total > 1:
        names = " ".join(_loop_name(a, level) for a, level in parallel)
        yield f"  fuse {names} -> {total}, parallel"
    for attached in block.attached:
        region = [int(e[0]) for e in attached_extents(nest, attached)]
        where = _attach_loop(block, attached)
        tile = _local_tile(nest, attached)
        yield f"  compute {attached.op.name} at {where}, region {region}{tile}"
    if block.epilogue is not None:
        yield f"  compute {block.epilogue.name} at the register tile"
    partial = _revisited(nest)
    if partial:
        where = "the output"
        if block.write_depth or block.sums == "tile" or block.epilogue is not None:
            size = [int(nest.held(a)[0]) for a in block.spatial]
            where = f"a tile {size}"
        names = " ".join(_loop_name(a, 0) for a in partial)
        yield f"  keep partial sums of {names} in {where}"
    for name, shape, order in _packed(blocks, nest):
        yield f"  pack {name} {list(shape)} -> {' '.join(order)}"
    if block.reduce and int(nest.unroll[0]):
        yield f"  unroll up to {int(nest.unroll[0])} vector operations"
    if block.spatial:
        axis = block.spatial[-1]
        name = _loop_name(axis, block.spatial_levels - 1)
        yield f"  vectorize {name} {_extents(nest, axis)[-1]}"


def _grid_steps(nest: BlockNest) -> Iterator[str]:
    block = nest.block
    if tiled_by_level(nest):
        yield f"  reorder {' '.join(_loop_name(*loop) for loop in block.loops)}"
        for role, names, total in fused(nest):
            yield f"  fuse {' '.join(names)} -> {total}, {role}"
    for attached in block.attached:
        yield f"  compute {attached.op.name} inside"
    if block.epilogue is not None:
        yield f"  compute {block.epilogue.name} from registers"


def _revisited(nest: BlockNest) -> list[Axis]:
    """Reduce axes whose outer loop visits a register tile more than once."""
    block = nest.block
    return [a for a in block.reduce if block.reduce_levels > 1 and _extents(nest, a)[0] > 1]


def _packed(
    blocks: Sequence[Block], nest: BlockNest
) -> Iterator[tuple[str, tuple[int, ...], list[str]]]:
    for op, (packing, _, loops) in packings(blocks, nest).items():
        dots = nest.block.dots
        order = []
        for axis, level in loops:
            extents = _extents(nest, axis)
            if level == len(extents):
                order.append(f"{axis.name}.dot")
                continue
            taken = dots is not None and axis is dots.axis and level == len(extents) - 1
            if extents[level] // (dots.count if dots is not None and taken else 1) > 1:
                order.append(_loop_name(axis, level))
        yield op.name, packing.shape, order


def _attach_loop(block: Block, attached: Attached) -> str:
    """The innermost loop outside the attached producer."""
    level, number = block.levels.numbered[attached.depth - 1]
    return _loop_name(block.axes_of(level.kind)[-1], number)


def _local_tile(nest: BlockNest, attached: Attached) -> str:
    """The register tile of an attached reduction."""
    if attached.block is None:
        return ""
    extents = attached_extents(nest, attached)
    tile = [
        min(int(t[0]), int(e[0]))
        for t, e in zip(reversed(nest.local[attached]), reversed(extents), strict=False)
    ]
    taps = " ".join(a.name for a in attached.block.reduce)
    return f", register tile {tile[::-1]}, over {taps}"


def _tree(nest: BlockNest) -> Iterator[str]:
    """The loop tree; loops of one iteration are left out."""
    block = nest.block
    indent = 0

    def line(text: str) -> str:
        return "  " * indent + text

    def loops(axes: Sequence[Axis], level: int, kinds: Sequence[str]) -> Iterator[str]:
        nonlocal indent
        for axis, kind in zip(axes, kinds, strict=True):
            extent = _extents(nest, axis)[level]
            if extent > 1:
                yield line(f"{kind} {_loop_name(axis, level)} (0,{extent})")
                indent += 1

    def register_tile(text: str) -> Iterator[str]:
        nonlocal indent
        outside = indent
        kinds = ["unroll"] * (len(block.spatial) - 1) + ["vectorize"] * bool(block.spatial)
        yield from loops(block.spatial, block.spatial_levels - 1, kinds)
        yield line(text)
        indent = outside

    together = block.parallel_loops[: int(nest.parallel[0])]
    for depth, (level, number) in enumerate(block.levels.numbered[:-1], 1):
        axes = [a for a in block.axes_of(level.kind) if (a, number) not in together]
        if level.role == Role.parallel:
            total = math.prod(_extents(nest, a)[n] for a, n in together)
            if total > 1:
                names = "".join(f"{_loop_name(a, n)}@" for a, n in together)
                yield line(f"parallel {names} (0,{total})")
                indent += 1
        if level.role == Role.inner:
            start = "init or partial sums" if _revisited(nest) else "init"
            yield from register_tile(f"{block.op.name} = {start}")
            outside = indent
        kinds = ["unroll" if a in block.const_axes else "for" for a in axes]
        if block.scatter is not None and level.kind == "S":
            meant = axes.index(block.scatter.axis)
            del axes[meant], kinds[meant]
        yield from loops(axes, number, kinds)
        if block.scatter is not None and level.kind == "R":
            assert isinstance(block.body, Reduce)
            yield from register_tile(f"{block.op.name} {UPDATE[block.body.kind]} ... where meant")
        for attached in block.attached:
            if attached.depth == depth:
                yield from _attached_tree(nest, attached, indent)
        if level.role == Role.inner:
            assert isinstance(block.body, Reduce)
            text = f"{block.op.name} {UPDATE[block.body.kind]} ...{_together(nest)}"
            yield from register_tile(text)
            indent = outside
    if not block.reduce or block.epilogue is not None or block.write_depth:
        late = " (last visit)" if _revisited(nest) else ""
        yield from register_tile(f"{block.result.name} = ...{late}")


def _together(nest: BlockNest) -> str:
    """How many terms an instruction adds, and of a matrix unit which one it is."""
    block, dots = nest.block, nest.block.dots
    if dots is None:
        return ""
    tile = [nest.tiles[a][-1] for a in block.spatial]
    if block.matrix is None or not in_unit(block, tile)[0]:
        return f", {dots.axis.name} by {dots.count}"
    terms = dots.count * int(groups_of(nest)[0])
    return f", {dots.axis.name} by {terms} in {block.matrix.instruction.name}"


def _attached_tree(nest: BlockNest, attached: Attached, depth: int) -> Iterator[str]:
    for axis, extent in zip(attached.op.axes, attached_extents(nest, attached), strict=True):
        if int(extent[0]) > 1:
            yield "  " * depth + f"for {axis.name} (0,{int(extent[0])})"
            depth += 1
    if attached.block is not None and attached.block.op is not attached.op:
        body = attached.block.body
        assert isinstance(body, Reduce)
        yield "  " * depth + f"{attached.block.op.name} {UPDATE[body.kind]} ..."
    yield "  " * depth + f"{attached.op.name} = ..."
