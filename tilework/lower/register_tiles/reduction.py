"""Lowering of reductions: tiled loops around a register tile that holds the partial results.

Before (structure SSRSRS)::

    for S0, S1, R0, S2, R1, S3:  C[...] = C[...] + A[...] * B[...]

After::

    parallel S0; S1:                      loops that overhang their axis are clipped
      fill attached producers (padding)
      R0; S2:
        acc[S3] = 0, or the partial sums of the previous R0 visit
        R1 (innermost part expanded):  acc[S3] += A * B        acc lives in registers
        last R0 visit:  out[S3] = epilogue(acc)     else:  partial[S2, S3] = acc

This file makes the loops; what happens inside R1 and S3 is that of `register_tile`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework.lower.common import nest
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Buffer, Stmt, seq
from tilework.lower.ragged import Names
from tilework.lower.register_tiles.addend import Addend, Region
from tilework.lower.register_tiles.around import unswitched
from tilework.lower.register_tiles.attached import AttachedBuffer
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.chosen import at_places, named_places
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.matrix_tile import matrix_tile, unit_sums
from tilework.lower.register_tiles.panel import Panel
from tilework.lower.register_tiles.partial import PartialSums, write_held, write_late
from tilework.lower.register_tiles.ragged_tile import ragged_tile
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.lower.register_tiles.scaled_matrix import scaled_matrix_tile
from tilework.lower.register_tiles.scaled_tile import scaled_tile
from tilework.lower.register_tiles.steps import spans_of
from tilework.lower.register_tiles.tails import Tail, dispatch, served_by
from tilework.lower.register_tiles.tile_version import Version
from tilework.space.blocks import Attached, Block
from tilework.space.bounds import without
from tilework.space.levels import Role
from tilework.space.nest import BlockNest
from tilework.space.ragged import copies
from tilework.te.expr import Axis, Reduce
from tilework.te.tensor import Operation

Regions = dict[Attached, AttachedBuffer]

_FEW_ROWS = 2
"""Of a tile that unpacks weights for a matrix unit: so few, left over, are faster in registers."""


def lower_reduction(ctx: LoweringContext, block_nest: BlockNest) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of a reduction block."""
    loops = Loops.of(block_nest)
    regions: Regions = {}
    for a in reversed(loops.block.attached):  # readers first: they say where a region starts
        regions[a] = AttachedBuffer(ctx, loops, a, regions)
    partial = PartialSums.of(ctx, loops)
    panel = Panel.of(ctx, loops)
    body = _register_tiles(ctx, loops, regions, partial, panel)
    fused = loops.block.parallel_loops[: int(block_nest.parallel[0])]
    body = _loops_around(ctx, loops, regions, partial, panel, fused, body)
    return tuple(loops.vars[at] for at in fused if loops.vars[at].extent != 1), body


def _register_tiles(
    ctx: LoweringContext,
    loops: Loops,
    regions: Regions,
    partial: PartialSums | None,
    panel: Panel | None,
) -> Stmt:
    """The register tile in all versions, chosen by position."""
    block = loops.block
    base = {a: loops.offset(a, 0, block.spatial_levels - 1) for a in block.spatial}
    sizes = {a: loops.points(a) for a in block.spatial}
    sums = unit_sums(ctx, loops, partial)

    def version(spans: dict[Axis, Span]) -> Stmt:
        inside = Version.of(loops, spans, base)
        return inside.wrap(_one_tile(ctx, inside, regions, partial, panel, sums), base)

    spans, bounds = spans_of(loops), block.bounds
    served = served_by(block.spatial, sizes, spans, ctx.lanes, block.source, bounds, loops.visits)
    rare = any(isinstance(t, Tail) and not t.whole for t in served.values())
    after = write_held(ctx, loops, partial, base) if rare else None
    return dispatch(block.spatial, base, sizes, served, version, after)


def _one_tile(
    ctx: LoweringContext,
    version: Version,
    regions: Regions,
    partial: PartialSums | None,
    panel: Panel | None,
    sums: Buffer | None,
) -> Stmt:
    """The register tile in one version; ``sums`` are those of a matrix unit."""
    block = version.loops.block
    reduction = block.body
    assert isinstance(reduction, Reduce)
    source = without(reduction.source, version.known())
    by_op: dict[Operation, AttachedBuffer] = {a.op: region for a, region in regions.items()}
    if panel is not None:
        own: dict[Operation, Region] = {**by_op, panel.unpacked.op: panel}
        source = without(panel.source, version.known())
        addend = Addend(ctx, version, own, reduction, source)
        return RegisterTile.of(ctx, version, addend, partial).code()
    if not block.ragged:
        source, chosen = named_places(source) if block.chosen is not None else (source, [])
        addend = Addend(ctx, version, by_op, reduction, source)
        tile = RegisterTile.of(ctx, version, addend, partial)
        return at_places(ctx, version, chosen, _tile_code(tile, sums))
    names = Names.of(source, block.ragged.ends)
    accumulators = int(copies(version.loops.nest.unroll)[0])
    addend = Addend(ctx, version, by_op, reduction, names.source)
    tile = RegisterTile.of(ctx, version, addend, partial, accumulators)
    return ragged_tile(tile, names, accumulators)


def _tile_code(tile: RegisterTile, sums: Buffer | None) -> Stmt:
    """A tile by what computes it: vector registers, or a matrix unit with ``sums``."""
    block = tile.version.loops.block
    rows = math.prod(tile.version.size(a) for a in block.spatial[:-1])
    if block.scaled is not None and sums is not None and rows > _FEW_ROWS:
        return scaled_matrix_tile(tile, block.scaled, sums)
    if block.scaled is not None:
        return scaled_tile(tile, block.scaled)
    return tile.code() if sums is None else matrix_tile(tile, sums)


def _loops_around(
    ctx: LoweringContext,
    loops: Loops,
    regions: Regions,
    partial: PartialSums | None,
    panel: Panel | None,
    fused: Sequence[tuple[Axis, int]],
    stmt: Stmt,
) -> Stmt:
    """The loops above the register tile, with the attached producers and late writes in them."""
    block = loops.block
    levels = [*enumerate(block.levels.numbered, 1)][:-1]  # the last one is the register tile
    for depth, (level, number) in reversed(levels):
        if level.role is Role.inner:
            continue  # inside the register tile
        axes = [a for a in block.axes_of(level.kind) if (a, number) not in fused]
        stmt = _inside_levels(ctx, block, depth, regions, partial, stmt)
        if panel is not None and panel.depth == depth:
            stmt = seq(panel.fill(), stmt)
        specs = [loops.loop(a, number) for a in axes]
        stmt = unswitched(specs, stmt) if any(a.open for a in loops.tile) else nest(specs, stmt)
    return stmt


def _inside_levels(
    ctx: LoweringContext,
    block: Block,
    depth: int,
    regions: Regions,
    partial: PartialSums | None,
    stmt: Stmt,
) -> Stmt:
    """What stands just inside the outermost ``depth`` levels: regions, and late writes."""
    if partial is not None and block.write_depth == depth:
        stmt = seq(stmt, write_late(ctx, partial))
    here = {a: region for a, region in regions.items() if a.depth == depth}
    stmt = seq(*[here[a].fill(regions) for a in block.attached if a in here], stmt)
    for region in reversed(here.values()):
        stmt = region.bound(stmt)
    return stmt
