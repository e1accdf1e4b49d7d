"""The register tile of a reduction: its sums start, take the terms of a visit, and are stored.

Before::

    for S3: for R1:  C[...] = C[...] + A[...] * B[...]
    for S3:          out[...] = epilogue(C[...])

After, with sums in registers::

    init     for S3:                            acc[S3] = 0
    step     for R1 (its inner part expanded):  for S3:  acc[S3] += A * B
    finish   for S3:                            out[S3] = epilogue(acc[S3])

All loops over S3 are expanded, the last one is a vector. Sums that wait in memory between two
visits start from there and end there (`partial`). Where data say how many terms there are, several
accumulators of each point take turns (`ragged_tile`).
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.frozen import frozen
from tilework.lower.common import ZERO, Index, inner_loops, load, loop_var, nest, var_or_zero
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import Started, finished, store_result
from tilework.lower.ir import Buffer, If, Load, Stmt, Store, seq
from tilework.lower.register_tiles.addend import Addend
from tilework.lower.register_tiles.partial import PartialSums, held_sums
from tilework.lower.register_tiles.pieces import has_pieces, is_long
from tilework.lower.register_tiles.steps import reduce_steps
from tilework.lower.register_tiles.tile_version import Version
from tilework.te.expr import Const, Expr, Select


@frozen(eq=False)
class RegisterTile:
    """One version of a nest's register tile.

    Attributes:
        ctx: the program's context.
        version: the points that it has, and what is known of where they stand.
        addend: what a step adds.
        partial: where sums wait in memory; None if every visit is the only one.
        acc: the sums in registers, by point; behind the number of the accumulator if `turns`.
        turns: whether several accumulators of each point take turns.
    """

    ctx: LoweringContext
    version: Version
    addend: Addend
    partial: PartialSums | None
    acc: Buffer
    turns: bool

    @staticmethod
    def of(
        ctx: LoweringContext,
        version: Version,
        addend: Addend,
        partial: PartialSums | None,
        accumulators: int | None = None,
    ) -> RegisterTile:
        """A tile with one accumulator of each point, or with ``accumulators`` that take turns."""
        block = version.loops.block
        shape = [version.size(a) for a in block.spatial]
        if accumulators is not None:
            shape.insert(0, accumulators)
        acc = ctx.temporary(f"{block.op.name}.acc", shape, block.op.dtype, "register")
        return RegisterTile(ctx, version, addend, partial, acc, accumulators is not None)

    def code(self) -> Stmt:
        """One visit of the tile."""
        return seq(self.claim(), self._sums(), self.finish())

    def _sums(self) -> Stmt:
        """All terms of a visit; of a long sum, those of each visit or piece by themselves."""
        loops = self.version.loops
        if not is_long(loops):
            return seq(self.init(), reduce_steps(self.version, self.step))
        clear = self.each_point(lambda point: self.set(point, self._neutral))
        if not has_pieces(loops):
            done = self.each_point(
                lambda point: self.set(
                    point, self.addend.combined(self._first(point), self.sum(point))
                )
            )
            return seq(clear, reduce_steps(self.version, self.step), done)
        shape = [loops.points(a) for a in loops.block.spatial]
        total = self.ctx.shared(f"{loops.block.op.name}.total", shape, self.acc.dtype)

        def put(value: Callable[[Index], Expr]) -> Stmt:
            return self.each_point(lambda point: Store(total, self._place(point), value(point)))

        def so_far(point: Index) -> Expr:
            return load(total, self._place(point))

        add = put(lambda point: self._both(so_far, point))
        pieces = reduce_steps(self.version, self.step, apart=lambda piece: seq(clear, piece, add))
        return seq(put(self._first), pieces, self.each_point(lambda p: self.set(p, so_far(p))))

    def _both(self, before: Callable[[Index], Expr], point: Index) -> Expr:
        return self.addend.combined(before(point), self.sum(point))

    def init(self, copy: Expr = ZERO) -> Stmt:
        """Sums start from the neutral element or a bias, later from what waits in memory."""
        return self.each_point(lambda point: self.set(point, self._first(point), copy))

    @property
    def _neutral(self) -> Const:
        return Const(self.acc.dtype, self.version.loops.neutral)

    def _first(self, point: Index) -> Expr:
        """What the sum of a point starts from in a visit."""
        first: Expr = self._neutral
        if self._started is not None:
            at = self.version.at(point)
            first = finished(self.ctx, self.version.loops.block, at, first, self._started.first)
        if self.partial is None or self.partial.first is None:
            return first
        before = load(self.partial.buffer, self._waiting(point))
        return Select(self.acc.dtype, self.partial.first, first, before)

    def step(self, index: Index, taps: Index, copy: Expr = ZERO) -> Stmt:
        """One step of all points.

        Args:
            index: the step of the innermost reduce level, by reduce axis.
            taps: what stands for it in bounds: a literal where all taps of a loop use the same
                points.
            copy: the accumulator whose turn it is.
        """

        def update(point: Index) -> Stmt:
            before = self.sum(point, copy)
            value = self.addend.added(before, point, index)
            counts = self.version.tested(point, taps)
            if counts is not None:
                value = Select(self.acc.dtype, counts, value, before)
            return self.set(point, value, copy)

        return self.each_point(update, lambda point: self.version.used(point, taps))

    def finish(self) -> Stmt:
        """Finished sums are stored behind their epilogue, others kept for the next visit."""
        partial = self.partial
        held = self._held
        if held is not None and (partial is None or held is not partial.buffer):
            return self.each_point(lambda point: Store(held, self._place(point), self.sum(point)))
        if partial is None or partial.written == "visit":
            return self._store()
        if held is not None or partial.written == "late":
            return self._keep(partial)
        assert partial.last is not None
        return If(partial.last, self._store(), self._keep(partial))

    def _place(self, point: Index) -> tuple[Expr, ...]:
        inner = self.version.inner(point)
        return tuple(inner[a] for a in self.version.loops.block.spatial)

    def claim(self) -> Stmt | None:
        """What announces the stores of `finish`."""
        if self.version.rare or (self.partial is not None and self.partial.written == "late"):
            return None
        block = self.version.loops.block
        sizes = {a: self.version.size(a) for a in block.spatial}
        claim = self.ctx.tactics.claim_tile(
            self.ctx.buffers[block.result], self.version.base, sizes
        )
        if claim is None or self.partial is None or self.partial.written == "visit":
            return claim
        assert self.partial.last is not None
        return If(self.partial.last, claim)

    def each_point(
        self, make: Callable[[Index], Stmt], used: Callable[[Index], Expr | None] | None = None
    ) -> Stmt:
        """``make`` of all points, in expanded loops; only of those ``used`` where it tells."""
        vars_ = {
            a: loop_var(f"{a.name}.t", self.version.size(a))
            for a in self.version.loops.block.spatial
        }
        point = {a: var_or_zero(v) for a, v in vars_.items()}
        each, active = inner_loops(vars_), self.version.active
        cond = used(point) if used is not None else None
        if cond is None:
            return nest(each, make(point), active)
        return nest(each[:-1], If(cond, nest(each[-1:], make(point), active)))

    def sum(self, point: Index, copy: Expr = ZERO) -> Load:
        """The sum of a point in one of its accumulators."""
        return Load(self.acc.dtype, self.acc, self._index(point, copy))

    def set(self, point: Index, value: Expr, copy: Expr = ZERO) -> Stmt:
        """Set an accumulator of a point."""
        return Store(self.acc, self._index(point, copy), value)

    def _index(self, point: Index, copy: Expr) -> tuple[Expr, ...]:
        where = tuple(point[a] for a in self.version.loops.block.spatial)
        return (copy, *where) if self.turns else where

    @property
    def _held(self) -> Buffer | None:
        """Where sums wait for an epilogue that several versions share."""
        if not self.version.rare:
            return None
        return held_sums(self.ctx, self.version.loops, self.partial)

    @property
    def _started(self) -> Started | None:
        """What sums start from, where registers hold them until their own epilogue."""
        if self.turns or self._held is not None:
            return None
        if self.partial is not None and self.partial.written != "last":
            return None
        return Started.of(self.version.loops.block)

    def _store(self) -> Stmt:
        block, started = self.version.loops.block, self._started
        rest = None if started is None else started.rest

        def store(point: Index) -> Stmt:
            return store_result(self.ctx, block, self.version.at(point), self.sum(point), rest)

        return self.each_point(store)

    def _keep(self, partial: PartialSums) -> Stmt:
        return self.each_point(
            lambda point: Store(partial.buffer, self._waiting(point), self.sum(point))
        )

    def _waiting(self, point: Index) -> tuple[Expr, ...]:
        assert self.partial is not None
        return self.partial.indices(self.version.at(point), self.version.inner(point))
