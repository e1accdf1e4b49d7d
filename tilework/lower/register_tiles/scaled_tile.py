"""The register tile of a sum of scaled sums; see `tilework.space.scaled`.

After, with three kinds of sums in registers::

    for g:
      inner[S3] = 0;  total[rows] = 0
      for k:  inner[S3] += x * w;  total[rows] += x
      acc[S3] += (inner[S3] - less * total[rows]) * factor

There is no ``total`` where nothing is subtracted, or where a tile has fewer vectors in a row than
rows: then that many subtractions from ``w`` are the smaller number. Inner sums of integers are
converted when a block is done: ``acc[S3] += (float32(inner[S3]) * scale + more) * factor``. Few
rows take what is added to all weights of a block from ``more``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tilework.lower.common import ZERO, Index, load, loop_var, nest, var_or_zero
from tilework.lower.expansion import tile_vectors
from tilework.lower.ir import Stmt, Store, seq
from tilework.lower.register_tiles.addend import Addend
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.lower.register_tiles.steps import reduce_steps
from tilework.space.bounds import without
from tilework.space.capabilities import Scaled
from tilework.te.expr import Const, Expr, binary
from tilework.te.functions import cast

_FEW_ROWS = 2
"""Rows of a tile for which weights are not moved to their zero point: a finished sum is."""


def scaled_tile(tile: RegisterTile, scaled: Scaled) -> Stmt:
    """All terms of a tile, the inner sums scaled on the way, and the finished sums stored."""
    version, block, dtype = tile.version, tile.version.loops.block, scaled.terms.dtype
    *rows, last = block.spatial

    def addend(e: Expr) -> Addend:
        return replace(tile.addend, source=without(e, version.known()))

    def each_row(make: Callable[[Index], Stmt]) -> Stmt:
        vars_ = {a: loop_var(f"{a.name}.t", version.size(a)) for a in rows}
        point = {a: var_or_zero(v) for a, v in vars_.items()} | {last: ZERO}
        return nest([(v, v.extent, "unroll") for v in vars_.values()], make(point))

    sums = tile.ctx.temporary(f"{block.op.name}.inner", tile.acc.shape, dtype, "register")
    shape, vectors = [version.size(a) for a in rows], tile_vectors([version.size(last)])
    apart = scaled.apart if math.prod(shape) < vectors else None
    factor, whole = addend(scaled.factor), scaled.whole
    few = whole.few if whole is not None and math.prod(shape) <= _FEW_ROWS else None
    terms = addend((few or apart or scaled).terms)
    inner = replace(tile, acc=sums, addend=terms, partial=None)
    total = tile.ctx.temporary(f"{block.op.name}.total", [*shape, 1], dtype, "register")

    def of_row(point: Index) -> tuple[Expr, ...]:
        return (*(point[a] for a in rows), ZERO)

    def start() -> Stmt:
        if apart is None:
            return inner.init()
        zero = Const(dtype, 0.0)
        return seq(inner.init(), each_row(lambda point: Store(total, of_row(point), zero)))

    def step(index: Index, taps: Index) -> Stmt:
        if apart is None:
            return inner.step(index, taps)
        data = addend(apart.data)

        def added(point: Index) -> Stmt:
            value = binary("+", load(total, of_row(point)), data.term(point, index))
            return Store(total, of_row(point), value)

        return seq(inner.step(index, taps), each_row(added))

    def visit(index: Index, taps: Index) -> Stmt:
        first = {**index, **dict.fromkeys(scaled.axes, ZERO)}

        def finish(point: Index) -> Stmt:
            value: Expr = inner.sum(point)
            if whole is not None:
                scale, more = (
                    addend(e).term(point, first) for e in (whole.scale, (few or whole).more)
                )
                value = binary("+", binary("*", cast("float32", value), scale), more)
            if apart is not None:
                less = addend(apart.less).term(point, first)
                value = binary("-", value, binary("*", less, load(total, of_row(point))))
            value = binary("*", value, factor.term(point, first))
            return tile.set(point, tile.addend.combined(tile.sum(point), value))

        steps = reduce_steps(version, step, scaled.axes, index)
        return seq(start(), steps, tile.each_point(finish))

    around = [a for a in block.reduce if a not in scaled.axes]
    steps = reduce_steps(version, visit, around, expanded=False)
    return seq(tile.claim(), tile.init(), steps, tile.finish())
