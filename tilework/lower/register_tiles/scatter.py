"""Lowering of reductions whose terms go where they belong; see `tilework.space.scattering`.

Before (structure SRS)::

    for S0, S1:  C[i, j] = sum over e: rows[e] == i ? x[e, j] : 0

After::

    parallel S0 of j:
      for i:  C[i, S1 of j] = 0
      for e:  i = rows[e];  if 0 <= i < I:  C[i, S1 of j] += x[e, j]
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.lower.common import (
    COMBINE,
    Index,
    LoopSpec,
    bind,
    load,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
)
from tilework.lower.context import LoweringContext
from tilework.lower.ir import For, If, Let, Stmt, Store, seq
from tilework.lower.register_tiles.around import OuterLoops
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.tails import dispatch, served_by
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Const, Expr, Logic, Reduce, binary, compare


def lower_scatter(ctx: LoweringContext, block_nest: BlockNest) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of a block whose terms are scattered."""
    block = block_nest.block
    scatter, reduction = block.scatter, block.body
    assert scatter is not None and isinstance(reduction, Reduce)
    free = block.parallel_axes
    outer = OuterLoops.of(block_nest, free)
    result = ctx.buffers[block.op]
    served = served_by(free, outer.tile, {}, ctx.lanes, scatter.value)

    def tile_at(row: Expr, value: Callable[[Index], Expr]) -> Stmt:
        """A tile of the point ``row``, of what ``value`` says of each element."""

        def inner(spans: dict[Axis, Span]) -> Stmt:
            points = {a: loop_var(f"{a.name}.1", spans[a].size) for a in free}
            at = {a: spans[a].at(outer.base[a], var_or_zero(points[a])) for a in free}
            at[scatter.axis] = row
            store = Store(result, tuple(at[a] for a in block.spatial), value(at))
            last = block.spatial[-1]
            loops: list[LoopSpec] = [
                (v, v.extent, "vector" if a is last else "unroll") for a, v in points.items()
            ]
            return nest(loops, store, spans[last].active if last in spans else None)

        return dispatch(free, outer.base, outer.tile, served, inner)

    terms = {a: loop_var(a.name, a.extent) for a in block.reduce}
    where: Index = {a: var_or_zero(v) for a, v in terms.items()}

    def added(at: Index) -> Expr:
        term = bind(scatter.value, {**at, **where}, plain_read(ctx))
        sums = load(result, [at[a] for a in block.spatial])
        return binary(COMBINE[reduction.kind], sums, term)

    point = loop_var(scatter.axis.name, scatter.axis.extent)
    start = tile_at(point, lambda at: Const(block.op.dtype, reduction.identity))
    meant = loop_var(f"{scatter.axis.name}.e", scatter.axis.extent)
    place = bind(scatter.place, {**outer.base, **where}, plain_read(ctx))
    end = Const(place.dtype, scatter.axis.extent)
    inside = Logic(
        "bool", "and", compare(">=", place, Const(place.dtype, 0)), compare("<", place, end)
    )
    term = If(inside, Let(meant, place, tile_at(meant, added)))
    body = seq(
        For(point, point.extent, "serial", start),
        nest([(v, v.extent, "serial") for v in terms.values()], term),
    )
    return outer.around(free, body)
