"""Products on tensor cores: a block of warps, fed from shared memory some fetches ahead.

::

    fetch the first stages - 1 pieces of k
    for t in k / block_k:
        wait until fetch t has arrived; all threads meet
        fetch t + stages - 1 to where fetch t - 1 was
        sums += A_s[t % stages] * B_s[t % stages]          in registers
    out[m, n] = epilogue(sums)                             m and n within their axes
"""

from __future__ import annotations

from tilework.index.extents import known, known_shape
from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.lower.flat import named, place
from tilework.kinds.cuda.lower.mma_fetch import Fetch
from tilework.kinds.cuda.lower.mma_multiply import REGISTERS, Multiply, element
from tilework.kinds.cuda.mma.instructions import COLUMNS, ROWS
from tilework.kinds.cuda.mma.product import Factor, points, product_of
from tilework.kinds.cuda.mma.shared import SharedTile
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.lower import ir
from tilework.lower.common import const, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest
from tilework.space.packing import Packing
from tilework.space.packings import Packed
from tilework.te.expr import Axis, Const, Expr, binary, compare
from tilework.te.tensor import Operation


def mma_packings(block: Block) -> dict[Operation, Packed]:
    """Layouts of the constant weights: terms of k innermost, so that 16 bytes lie along them.

    Those of tf32 are rounded, too.
    """
    product = product_of(block)
    factor, rounded = product.b, product.kind == "tf32"
    if not factor.constant or (factor.order == tuple(range(len(factor.order))) and not rounded):
        return {}
    shape = known_shape(factor.read.tensor.shape)
    packing = Packing(shape, tuple((s,) for s in shape), factor.order, tf32=rounded)
    return {factor.read.tensor.op: Packed(packing, (), ())}


def lower_mma(ctx: LoweringContext, block_nest: BlockNest) -> ir.Region:
    """The region of a block of the form "mma"."""
    return _Kernel(ctx, block_nest).region()


class _Kernel:
    """The variables and buffers of one kernel, and what it does with them."""

    def __init__(self, ctx: LoweringContext, block_nest: BlockNest) -> None:
        self.ctx, self.block = ctx, block_nest.block
        tiles = Tiles.of(block_nest)
        self.product = product = tiles.product
        self.block_m, self.block_n = int(tiles.block_m[0]), int(tiles.block_n[0])
        self.warp_m, self.warp_n = int(tiles.warp_m[0]), int(tiles.warp_n[0])
        self.block_k, self.stages = int(tiles.block_k[0]), int(tiles.stages[0])
        self.fetches = int(tiles.fetches[0])
        batch, m, n, _ = product.extents
        self.batch = loop_var("batch", batch)
        self.grid_m = loop_var("m.block", -(-m // self.block_m))
        self.grid_n = loop_var("n.block", -(-n // self.block_n))
        self.warps_n = loop_var("n.warp", self.block_n // self.warp_n)
        self.warps_m = loop_var("m.warp", self.block_m // self.warp_m)
        self.lane = loop_var("lane", WARP)
        self.thread = loop_var("thread", int(tiles.threads[0]))
        self.a = self._shared(product.a, self.block_m)
        self.b = self._shared(product.b, self.block_n)
        shape = (self.warp_m // ROWS, self.warp_n // COLUMNS, REGISTERS)
        self.sums = ctx.temporary(f"{self.block.op.name}.sum", shape, "float32", "register")

    def region(self) -> ir.Region:
        """The kernel."""
        names, self.at_batch = place(self.batch, {a: a.points for a in self.product.batch})
        body = named(names, ir.seq(self._start(), *self._pipeline(), self._finish()))
        grid = (self.batch, self.grid_n, self.grid_m)
        threads = (self.warps_n, self.warps_m, self.lane)
        return ir.Region(self.block.result.name, grid, body, threads, self.thread)

    def _shared(self, factor: Factor, size: int) -> SharedTile:
        """Where a block's tiles of an operand are."""
        rows, row = (size, self.block_k) if factor.along == "k" else (self.block_k, size)
        tensor = factor.read.tensor
        shape = (self.stages, rows, row)
        buffer = self.ctx.temporary(f"{tensor.name}.s", shape, tensor.dtype, "block")
        return SharedTile(factor, buffer, self.product.piece)

    # -- the sum ------------------------------------------------------------------------------

    def _start(self) -> ir.Stmt:
        """Sums of nothing."""
        loops = [
            loop_var(name, n) for name, n in zip("ijq", known_shape(self.sums.shape), strict=True)
        ]
        zero = ir.Store(self.sums, tuple(map(var_or_zero, loops)), Const("float32", 0.0))
        return nest([(v, v.points, "unroll") for v in loops], zero)

    def _pipeline(self) -> list[ir.Stmt]:
        """All fetches and products."""
        ahead = self.stages - 1
        first, t = loop_var("first", ahead), loop_var("fetch", self.fetches)
        begin: ir.Stmt = self._fetch(var_or_zero(first), var_or_zero(first))
        if self.fetches < ahead:
            begin = ir.If(compare("<", first, const(self.fetches)), begin)
        parts: list[ir.Stmt] = [nest([(first, ahead, "serial")], ir.seq(begin, ir.Commit()))]
        step: list[ir.Stmt] = [ir.Wait(self.stages - 2), ir.Barrier()]
        now = var_or_zero(t)
        if self.fetches > ahead:
            later = loop_var("later", self.fetches)
            fetch = self._fetch(binary("%", later, const(self.stages)), later)
            more = ir.If(compare("<", binary("+", now, const(ahead)), const(self.fetches)), fetch)
            step.append(ir.Let(later, binary("+", now, const(ahead)), more))
        step += [ir.Commit(), self._multiply().stmt(binary("%", now, const(self.stages)))]
        return [*parts, nest([(t, self.fetches, "serial")], ir.seq(*step))]

    def _fetch(self, stage: Expr, number: Expr) -> ir.Stmt:
        """Fetch both operands."""
        product = self.product
        start = binary("*", number, const(self.block_k))
        sides = (
            (self.a, product.m, self.grid_m, self.block_m),
            (self.b, product.n, self.grid_n, self.block_n),
        )
        return ir.seq(*(
            Fetch(
                tile, self.ctx.buffers[tile.factor.read.tensor.op], axes,
                weighted_sum([(var_or_zero(block), size)]), product.k, self.at_batch,
                self.block_k, self.thread.points, self.thread,
            ).stmt(stage, start)
            for tile, axes, block, size in sides
        ))  # fmt: skip

    def _multiply(self) -> Multiply:
        name, temporary = self.block.op.name, self.ctx.temporary
        shapes = (self.warp_m // ROWS, REGISTERS), (self.warp_n // (2 * COLUMNS), REGISTERS)
        a, b = (
            temporary(f"{name}.{part}", shape, "uint32", "register")
            for part, shape in zip("ab", shapes, strict=True)
        )
        return Multiply(
            self.product.kind, self.a, self.b, a, b, self.sums,
            weighted_sum([(var_or_zero(self.warps_m), self.warp_m)]),
            weighted_sum([(var_or_zero(self.warps_n), self.warp_n)]),
            self.lane, self.block_k // self.product.step,
        )  # fmt: skip

    # -- the result ---------------------------------------------------------------------------

    def _finish(self) -> ir.Stmt:
        """Store the tile: two neighbours along n at a time, rows of a warp 8 apart."""
        _, total, _, _ = self.product.extents
        i, half = loop_var("i", known(self.sums.shape[0])), loop_var("half", 2)
        row = weighted_sum([
            (var_or_zero(self.grid_m), self.block_m), (var_or_zero(self.warps_m), self.warp_m),
            (var_or_zero(i), ROWS), (half, 8), (binary("//", self.lane, const(4)), 1),
        ])  # fmt: skip
        point = loop_var("m", max(self.grid_m.points * self.block_m, 2))
        names, at = place(point, {a: a.points for a in self.product.m})
        body = named(names, self._row(var_or_zero(i), half, {**self.at_batch, **at}))
        if total % self.block_m:
            body = ir.If(compare("<", point, const(total)), body)
        body = ir.Let(point, row, body)
        return nest([(i, i.points, "unroll"), (half, 2, "unroll")], body)

    def _row(self, i: Expr, half: Expr, at: dict[Axis, Expr]) -> ir.Stmt:
        """Store a thread's part of one row of its warp."""
        total = points(self.product.n)
        j, one = loop_var("j", known(self.sums.shape[1])), loop_var("e", 2)
        pair = weighted_sum([
            (var_or_zero(self.grid_n), self.block_n // 2),
            (var_or_zero(self.warps_n), self.warp_n // 2),
            (var_or_zero(j), COLUMNS // 2), (binary("%", self.lane, const(4)), 1),
        ])  # fmt: skip
        *outer, last = self.product.n
        covered = self.grid_n.points * self.block_n
        done = element(self.sums, i, var_or_zero(j), half, one)
        extents = {a: a.points for a in outer}
        if last.points % 2 == 0:
            number = loop_var("pair", max(covered // 2, 2))
            names, where = place(number, {**extents, last: last.points // 2})
            where[last] = weighted_sum([(where[last], 2), (one, 1)])
            body = ir.For(
                one, 2, "vector", store_result(self.ctx, self.block, {**at, **where}, done)
            )
            inside, limit = named(names, body), total // 2
            value = pair
        else:
            number = loop_var("n", max(covered, 2))
            names, where = place(number, {**extents, last: last.points})
            inside = named(names, store_result(self.ctx, self.block, {**at, **where}, done))
            value, limit = weighted_sum([(pair, 2), (one, 1)]), total
        if total % self.block_n:
            inside = ir.If(compare("<", number, const(limit)), inside)
        inside = ir.Let(number, value, inside)
        if last.points % 2:
            inside = ir.For(one, 2, "unroll", inside)
        return nest([(j, j.points, "unroll")], inside)
