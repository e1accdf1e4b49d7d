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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilework.lower.attached import COMBINE, AttachedBuffer
from tilework.lower.common import (
    ZERO,
    bind,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import Context
from tilework.lower.elementwise import inner_loops, versions
from tilework.lower.ir import PAIR_DOT, Buffer, If, Load, Stmt, Store, seq
from tilework.space.blocks import Attached, Block
from tilework.space.canonical import EXPANDED_LANES
from tilework.space.nest import BlockNest
from tilework.space.pairs import pair_axis, product
from tilework.te.expr import (
    Axis,
    Call,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    binary,
    compare,
)
from tilework.te.tensor import Operation

_SHORT_TILE_SHARE = 4


@dataclass
class Loops:
    """Loop variables of the nest by (axis, level), and tile sizes."""

    nest: BlockNest
    vars: dict[tuple[Axis, int], Axis]
    tile: dict[Axis, tuple[int, ...]]

    def stride(self, axis: Axis, level: int) -> int:
        """Points of the axis that one step of its loop at ``level`` advances."""
        out = 1
        for extent in self.tile[axis][level + 1 :]:
            out *= extent
        return out

    def offset(self, axis: Axis, first: int, last: int) -> Expr:
        """Position contributed by the loops ``first <= level < last``."""
        return weighted_sum(
            [(self.index(axis, lv), self.stride(axis, lv)) for lv in range(first, last)]
        )

    def index(self, axis: Axis, level: int) -> Expr:
        """The loop's variable, or 0 where the loop is dropped."""
        return var_or_zero(self.vars[axis, level])

    def loop(self, axis: Axis, level: int) -> tuple[Axis, int | Expr, str]:
        """The serial loop at ``level``, clipped where the tiles overhang the axis."""
        var = self.vars[axis, level]
        covered = self.stride(axis, 0) * self.tile[axis][0]
        if axis in self.nest.block.const_axes:
            return var, var.extent, "unroll"
        if level == 0 or covered - axis.extent < self.stride(axis, level) or var.extent == 1:
            return var, var.extent, "serial"
        step = self.stride(axis, level)
        left = binary("-", const(axis.extent + step - 1), self.offset(axis, 0, level))
        return var, binary("min", const(var.extent), binary("//", left, const(step))), "serial"


def lower_reduction(ctx: Context, block_nest: BlockNest) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of a reduction block."""
    block = block_nest.block
    tile = {a: tuple(int(t[0]) for t in ts) for a, ts in block_nest.tiles.items()}
    names = {(a, lv): loop_var(f"{a.name}.{lv}", tile[a][lv]) for a, lv in block.loops}
    loops = Loops(block_nest, names, tile)
    body = _register_tiles(ctx, loops, fused := int(block_nest.parallel[0]))
    parallel = tuple(
        loops.vars[a, 0] for a in block.parallel_axes[:fused] if loops.vars[a, 0].extent > 1
    )
    return parallel, body


def _register_tiles(ctx: Context, loops: Loops, fused: int) -> Stmt:
    block = loops.nest.block
    levels = block.spatial_levels
    base = {a: loops.offset(a, 0, levels - 1) for a in block.spatial}
    locals_: dict[Attached, AttachedBuffer] = {}
    for a in reversed(block.attached):  # readers first: they say where a region starts
        locals_[a] = AttachedBuffer(ctx, loops, a, locals_)
    partial = _partial_buffer(ctx, loops)

    def tile_body(sizes: dict[Axis, int]) -> Stmt:
        return _one_tile(ctx, loops, sizes, base, locals_, partial)

    sizes = {a: loops.tile[a][-1] for a in block.spatial}
    stmt = versions(list(block.spatial), base, sizes, tile_body)
    # Wrap the loops above the register tile, innermost first; level counters per kind.
    seen = {"S": levels - 1, "R": block.reduce_levels}
    for letter in reversed(block.structure[:-1]):
        seen[letter] -= 1
        level = seen[letter]
        if letter == "R" and level == block.reduce_levels - 1:
            continue  # the innermost reduce level is inside the register tile
        axes = block.ordered if letter == "S" else block.reduce
        if letter == "S":
            here = {a: b for a, b in locals_.items() if a.level == level + 1}
            if block.write_level == level + 1:
                assert partial is not None
                stmt = seq(stmt, _write_tile(ctx, loops, partial))
            stmt = seq(*[here[a].fill(locals_) for a in block.attached if a in here], stmt)
            for local in reversed(here.values()):
                stmt = local.bound(stmt)
            if level == 0:
                axes = axes[fused:]
        stmt = nest([loops.loop(a, level) for a in axes], stmt)
    return stmt


def _partial_buffer(ctx: Context, loops: Loops) -> Buffer | None:
    """Where partial sums wait between visits of the outer reduce level; None if visited once."""
    block = loops.nest.block
    if not block.write_level:
        if block.reduce_levels < 2 or all(loops.tile[a][0] == 1 for a in block.reduce):
            return None
        if block.accumulate == "output" and block.epilogue is None:
            return ctx.buffers[block.op]
    shape = [int(loops.nest.held(a)[0]) for a in block.spatial]
    return ctx.temporary(f"{block.op.name}.partial", shape, block.op.dtype, "thread")


def _one_tile(
    ctx: Context,
    loops: Loops,
    sizes: dict[Axis, int],
    base: dict[Axis, Expr],
    locals_: dict[Attached, AttachedBuffer],
    partial: Buffer | None,
) -> Stmt:
    block = loops.nest.block
    reduce_node = block.body
    assert isinstance(reduce_node, Reduce)
    acc = ctx.temporary(
        f"{block.op.name}.acc", [sizes[a] for a in block.spatial], block.op.dtype, "register"
    )
    identity = Const(block.op.dtype, reduce_node.identity)
    visits = [a for a in block.reduce if block.reduce_levels > 1 and loops.tile[a][0] > 1]
    last_level = block.reduce_levels - 1

    def each_point(make: Callable[[dict[Axis, Expr]], Stmt]) -> Stmt:
        vars_ = {a: loop_var(f"{a.name}.t", sizes[a]) for a in block.spatial}
        point = {a: var_or_zero(vars_[a]) for a in block.spatial}
        return nest(inner_loops(vars_), make(point))

    def acc_at(point: dict[Axis, Expr]) -> tuple[Expr, ...]:
        return tuple(point[a] for a in block.spatial)

    def partial_at(point: dict[Axis, Expr]) -> tuple[Expr, ...]:
        if partial is ctx.buffers.get(block.op):
            return tuple(binary("+", base[a], point[a]) for a in block.spatial)
        held, top = block.write_level or 2, block.spatial_levels - 1
        return tuple(binary("+", loops.offset(a, held, top), point[a]) for a in block.spatial)

    def init(point: dict[Axis, Expr]) -> Stmt:
        value: Expr = identity
        if partial is not None and visits:
            first: Expr | None = None
            for a in visits:
                here = compare("==", loops.index(a, 0), const(0))
                first = here if first is None else _and(first, here)
            assert first is not None
            value = Select(acc.dtype, first, identity, load(partial, partial_at(point)))
        return Store(acc, acc_at(point), value)

    unrolled = _unrolled_reduce(loops, sizes)
    pair = pair_axis(block)

    def source(point: dict[Axis, Expr], second: int = 0) -> Expr:
        """What a reduction step adds; of a pair, the first or the second term."""
        inner = {a: binary("+", i, const(second if a is pair else 0))
                 for a, i in unrolled.index.items()}  # fmt: skip
        red_index = {
            a: weighted_sum(
                [(loops.index(a, lv), loops.stride(a, lv)) for lv in range(last_level)]
                + [(inner[a], 1)]
            )
            for a in block.reduce
        }
        at = {a: binary("+", base[a], point[a]) for a in block.spatial} | red_index

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            for attached, local in locals_.items():
                if attached.op is op:
                    return local.read(read, point, inner)
            if op in ctx.packed:
                packing, packed_loops = ctx.packed[op]
                index = [
                    const(second)
                    if lv > last_level and a is pair
                    else (unrolled.pair if a is pair else unrolled.index[a])
                    if a.kind == "reduce" and lv == last_level
                    else point[a]
                    if a.kind == "spatial" and lv == block.spatial_levels - 1
                    else loops.index(a, lv)
                    for a, lv in packed_loops
                ]
                lead = len(packing.packed_shape) - len(index)
                return load(ctx.buffers[op], [ZERO] * lead + index)
            return load(ctx.buffers[op], indices)

        return bind(reduce_node.source, at, resolve)

    def update(point: dict[Axis, Expr]) -> Stmt:
        before = Load(acc.dtype, acc, acc_at(point))
        if pair is not None:
            first, second = product(source(point)), product(source(point, 1))
            assert first is not None
            assert second is not None
            value: Expr = Call(acc.dtype, PAIR_DOT, (before, *first, *second))
        else:
            value = binary(COMBINE[reduce_node.kind], before, source(point))
        return Store(acc, acc_at(point), value)

    def finish(point: dict[Axis, Expr]) -> Stmt:
        at = {a: binary("+", base[a], point[a]) for a in block.spatial}
        return _write(ctx, block, at, Load(acc.dtype, acc, acc_at(point)))

    def spill(point: dict[Axis, Expr]) -> Stmt:
        assert partial is not None
        return Store(partial, partial_at(point), Load(acc.dtype, acc, acc_at(point)))

    end = each_point(spill if block.write_level else finish)
    if not block.write_level and partial is not None and partial is not ctx.buffers.get(block.op):
        last: Expr | None = None
        for a in visits:
            here = compare("==", loops.index(a, 0), const(loops.tile[a][0] - 1))
            last = here if last is None else _and(last, here)
        assert last is not None
        end = If(last, end, each_point(spill))
    return seq(each_point(init), nest(unrolled.loops, each_point(update)), end)


def _write(ctx: Context, block: Block, at: dict[Axis, Expr], done: Expr) -> Stmt:
    """Store a finished element, after the epilogue."""
    result = block.result
    index = {o: at[a] for o, a in zip(result.axes, block.spatial, strict=True)}
    value = done
    if block.epilogue_body is not None:

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            return done if op is block.op else load(ctx.buffers[op], indices)

        value = bind(block.epilogue_body, index, resolve)
    return Store(ctx.buffers[result], tuple(index[o] for o in result.axes), value)


def _write_tile(ctx: Context, loops: Loops, partial: Buffer) -> Stmt:
    """Write the finished tile that lies inside ``write_level`` spatial levels."""
    block, level = loops.nest.block, loops.nest.block.write_level
    last = block.spatial[-1]
    tile = loops.tile[last][-1]
    loop_list: list[tuple[Axis, int | Expr, str]] = []
    local: dict[Axis, Expr] = {}
    for axis in block.spatial:
        step = tile if axis is last else 1
        extent = loops.stride(axis, level - 1) // step
        var = loop_var(f"{axis.name}.w", extent)
        left = binary("-", const(axis.extent + step - 1), loops.offset(axis, 0, level))
        covered = loops.stride(axis, 0) * loops.tile[axis][0]
        clipped: int | Expr = binary("min", const(extent), binary("//", left, const(step)))
        loop_list.append((var, extent if covered == axis.extent else clipped, "serial"))
        local[axis] = weighted_sum([(var if covered != axis.extent else var_or_zero(var), step)])
    base = {a: binary("+", loops.offset(a, 0, level), local[a]) for a in block.spatial}

    def write(sizes: dict[Axis, int]) -> Stmt:
        lane = loop_var(f"{last.name}.v", sizes[last])
        point = {last: var_or_zero(lane)}
        at = {a: binary("+", base[a], point.get(a, ZERO)) for a in block.spatial}
        where = tuple(binary("+", local[a], point.get(a, ZERO)) for a in block.spatial)
        return nest([(lane, lane.extent, "vector")], _write(ctx, block, at, load(partial, where)))

    return nest(loop_list, versions([last], base, {last: tile}, write))


def _and(a: Expr, b: Expr) -> Expr:
    from tilework.te.functions import all as te_all

    return te_all(a, b)


@dataclass
class _Unrolled:
    """The innermost reduce level: its loops (partly expanded) and the index of each axis.

    Where an axis is taken in pairs, its index is that of a pair's first point, and ``pair`` is the
    pair's number.
    """

    loops: list[tuple[Axis, int | Expr, str]]
    index: dict[Axis, Expr]
    pair: Expr = ZERO


def _unrolled_reduce(loops: Loops, sizes: dict[Axis, int]) -> _Unrolled:
    """Expand the innermost reduce loops while the body stays within the row's unroll limit.

    Shorter last tiles, which run seldom, are expanded less: there may be several of them.
    """
    block = loops.nest.block
    level = block.reduce_levels - 1
    work = 1
    for i, a in enumerate(block.spatial):
        work *= -(-sizes[a] // EXPANDED_LANES) if i == len(block.spatial) - 1 else sizes[a]
    limit = int(loops.nest.unroll[0])
    if any(sizes[a] < min(loops.tile[a][-1], a.extent) for a in block.spatial):
        limit //= _SHORT_TILE_SHARE
    room = max(limit // max(work, 1), 1)
    out: list[tuple[Axis, int | Expr, str]] = []
    index: dict[Axis, Expr] = {}
    pair = pair_axis(block)
    number: Expr = ZERO
    for axis in reversed(block.reduce):
        var = loops.vars[axis, level]
        extent = var.extent // 2 if axis is pair else var.extent
        if axis in block.const_axes:
            out = [(var, extent, "unroll"), *out]
            index[axis] = var_or_zero(var)
            continue
        factor = max(d for d in range(1, min(extent, room) + 1) if extent % d == 0)
        room = room // factor if factor == extent else 1
        inner = loop_var(var.name + ".u", factor)
        outer = loop_var(var.name, extent // factor)
        out = [(outer, outer.extent, "serial"), (inner, factor, "unroll"), *out]
        index[axis] = weighted_sum([(var_or_zero(outer), factor), (var_or_zero(inner), 1)])
        if axis is pair:
            number = index[axis]
            index[axis] = binary("*", number, const(2))
    # All serial parts go outside all expanded parts: the expanded body is one basic block.
    serial = [lp for lp in out if lp[2] == "serial"]
    expanded = [lp for lp in out if lp[2] == "unroll"]
    return _Unrolled(serial + expanded, index, number)
