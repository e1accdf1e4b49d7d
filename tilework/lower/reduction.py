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
from functools import partial as partial_call

from tilework.lower.attached import AttachedBuffer
from tilework.lower.borders import Span, dispatch, tile_spans
from tilework.lower.common import (
    COMBINE,
    ZERO,
    LoopSpec,
    bind,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import Context
from tilework.lower.elementwise import inner_loops
from tilework.lower.ir import PAIR_DOT, Buffer, If, Load, Stmt, Store, seq
from tilework.lower.limited import Terms, let, limited_steps
from tilework.lower.loops import Loops
from tilework.lower.steps import Point, Version, reduce_steps, spans_of, vectors_of
from tilework.space.blocks import Attached, Block
from tilework.space.bounds import start, without
from tilework.space.limited import copies as accumulators
from tilework.space.limited import limits_of
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

    sizes = {a: loops.tile[a][-1] for a in block.spatial}

    def tile_body(spans: dict[Axis, Span]) -> Stmt:
        version = Version.of(loops, spans, base)
        return version.wrap(_one_tile(ctx, version, locals_, partial), base)

    stmt = dispatch(block.spatial, base, sizes, spans_of(loops), tile_body)
    # Wrap the loops above the register tile, innermost first; level counters per kind.
    seen = {"S": levels - 1, "R": block.reduce_levels}
    for letter in reversed(block.structure[:-1]):
        seen[letter] -= 1
        level = seen[letter]
        if letter == "R" and level == block.reduce_levels - 1:
            continue  # the innermost reduce level is inside the register tile
        axes = block.ordered if letter == "S" else block.reduce
        if letter == "S":
            here = {a: b for a, b in locals_.items() if a.depth == level + 1}
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
        if block.sums == "output" and block.epilogue is None:
            return ctx.buffers[block.op]
    shape = [int(loops.nest.held(a)[0]) for a in block.spatial]
    return ctx.temporary(f"{block.op.name}.partial", shape, block.op.dtype, "thread")


def _one_tile(
    ctx: Context,
    version: Version,
    locals_: dict[Attached, AttachedBuffer],
    partial: Buffer | None,
) -> Stmt:
    loops, base = version.loops, version.base
    block = loops.nest.block
    reduce_node = block.body
    assert isinstance(reduce_node, Reduce)
    limited = bool(limits_of(block))
    copies = int(accumulators(loops.nest.unroll)[0]) if limited else 1
    acc = ctx.temporary(
        f"{block.op.name}.acc",
        [*([copies] if limited else []), *(version.size(a) for a in block.spatial)],
        block.op.dtype,
        "register",
    )
    identity = Const(block.op.dtype, start(block))
    visits = [a for a in block.reduce if block.reduce_levels > 1 and loops.tile[a][0] > 1]
    last_level = block.reduce_levels - 1

    def each_point(
        make: Callable[[Point], Stmt], used: Callable[[Point], Expr | None] | None = None
    ) -> Stmt:
        vars_ = {a: loop_var(f"{a.name}.t", version.size(a)) for a in block.spatial}
        point = {a: var_or_zero(vars_[a]) for a in block.spatial}
        each = inner_loops(vars_)
        cond = used(point) if used is not None else None
        if cond is None:
            return nest(each, make(point))
        return nest(each[:-1], If(cond, nest(each[-1:], make(point))))

    def acc_at(point: Point, copy: Expr = ZERO) -> tuple[Expr, ...]:
        return (*([copy] if limited else []), *(point[a] for a in block.spatial))

    def partial_at(point: Point) -> tuple[Expr, ...]:
        if partial is ctx.buffers.get(block.op):
            return tuple(binary("+", base[a], point[a]) for a in block.spatial)
        held, top = block.write_level or 2, block.spatial_levels - 1
        inner = version.inner(point)
        return tuple(binary("+", loops.offset(a, held, top), inner[a]) for a in block.spatial)

    def init(point: Point, copy: Expr = ZERO) -> Stmt:
        value: Expr = identity
        if partial is not None and visits:
            first: Expr | None = None
            for a in visits:
                here = compare("==", loops.index(a, 0), const(0))
                first = here if first is None else _and(first, here)
            assert first is not None
            value = Select(acc.dtype, first, identity, load(partial, partial_at(point)))
        return Store(acc, acc_at(point, copy), value)

    pair = pair_axis(block)
    guarded = without(reduce_node.source, version.known())
    terms = Terms.of(guarded, reduce_node.limits) if limited else None
    guarded = terms.source if terms is not None else guarded

    def source(point: Point, index: Point, second: int = 0) -> Expr:
        """What a reduction step adds; of a pair, the first or the second term."""
        step = {a: weighted_sum([(i, 2), (const(second), 1)]) if a is pair else i
                for a, i in index.items()}  # fmt: skip
        red_index = {a: binary("+", version.offset(a), step[a]) for a in block.reduce}
        at = {a: binary("+", base[a], point[a]) for a in block.spatial} | red_index
        inner = version.inner(point)

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            for attached, local in locals_.items():
                if attached.op is op:
                    return local.read(read, inner, step)
            if op in ctx.packed:
                packing, packed_loops = ctx.packed[op]
                where = [
                    const(second)
                    if lv > last_level and a is pair
                    else index[a]
                    if a.kind == "reduce" and lv == last_level
                    else inner[a]
                    if a.kind == "spatial" and lv == block.spatial_levels - 1
                    else loops.index(a, lv)
                    for a, lv in packed_loops
                ]
                lead = len(packing.packed_shape) - len(where)
                return load(ctx.buffers[op], [ZERO] * lead + where)
            return load(ctx.buffers[op], indices)

        return bind(guarded, at, resolve)

    def step(index: Point, taps: Point, copy: Expr = ZERO) -> Stmt:
        def update(point: Point) -> Stmt:
            before = Load(acc.dtype, acc, acc_at(point, copy))
            if pair is not None:
                first, second = product(source(point, index)), product(source(point, index, 1))
                assert first is not None
                assert second is not None
                value: Expr = Call(acc.dtype, PAIR_DOT, (before, *first, *second))
            else:
                value = binary(COMBINE[reduce_node.kind], before, source(point, index))
            counts = version.tested(point, taps)
            if counts is not None:
                value = Select(acc.dtype, counts, value, before)
            return Store(acc, acc_at(point, copy), value)

        return each_point(update, lambda point: version.used(point, taps))

    def finish(point: Point) -> Stmt:
        at = {a: binary("+", base[a], point[a]) for a in block.spatial}
        return _write(ctx, block, at, Load(acc.dtype, acc, acc_at(point)))

    def spill(point: Point) -> Stmt:
        assert partial is not None
        return Store(partial, partial_at(point), Load(acc.dtype, acc, acc_at(point)))

    def limited_sum() -> Stmt:
        """The sums of as many terms as data say, in turns in several accumulators."""
        assert terms is not None

        def at(index: Point) -> Callable[[Expr], Expr]:
            return lambda e: bind(
                e, base | index, lambda op, _, where: load(ctx.buffers[op], where)
            )

        ends = {
            a: binary("max", ZERO, binary("min", const(a.extent), at({})(limit)))
            for a, limit in terms.limits
        }
        sizes = {a: version.size(a) for a in block.spatial}
        sums = limited_steps(
            block.reduce,
            ends,
            vectors_of(loops, sizes),
            copies,
            lambda index, body: let(terms.late, at(index), body),
            lambda index, copy: step(index, {}, copy),
        )
        starts = [each_point(partial_call(init, copy=const(k))) for k in range(copies)]
        adds = [each_point(partial_call(added, copy=k)) for k in range(1, copies)]
        return let(terms.early, at({}), seq(*starts, sums, *adds))

    def added(point: Point, copy: int) -> Stmt:
        """Another accumulator joins the first."""
        parts = [Load(acc.dtype, acc, acc_at(point, const(k))) for k in (0, copy)]
        return Store(acc, acc_at(point), binary(COMBINE[reduce_node.kind], *parts))

    end = each_point(spill if block.write_level else finish)
    sizes = {a: version.size(a) for a in block.spatial}
    claim = (
        None
        if block.write_level
        else ctx.tactics.claim_tile(ctx.buffers[block.result], base, sizes)
    )
    if not block.write_level and partial is not None and partial is not ctx.buffers.get(block.op):
        last: Expr | None = None
        for a in visits:
            here = compare("==", loops.index(a, 0), const(loops.tile[a][0] - 1))
            last = here if last is None else _and(last, here)
        assert last is not None
        end = If(last, end, each_point(spill))
        claim = If(last, claim) if claim is not None else None
    if limited:
        return seq(limited_sum(), end)
    return seq(claim, each_point(init), reduce_steps(version, step), end)


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
    loop_list: list[LoopSpec] = []
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

    def write(spans: dict[Axis, Span]) -> Stmt:
        lane = loop_var(f"{last.name}.v", spans[last].size)
        point = {last: var_or_zero(lane)}
        at = {a: binary("+", base[a], point.get(a, ZERO)) for a in block.spatial}
        where = tuple(binary("+", local[a], point.get(a, ZERO)) for a in block.spatial)
        return nest([(lane, lane.extent, "vector")], _write(ctx, block, at, load(partial, where)))

    return nest(
        loop_list, dispatch([last], base, {last: tile}, {last: tile_spans(last, tile)}, write)
    )


def _and(a: Expr, b: Expr) -> Expr:
    from tilework.te.functions import all as te_all

    return te_all(a, b)
