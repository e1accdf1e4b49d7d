"""One operand of a tile that a block stages in shared memory, and what fetches it."""

from __future__ import annotations

from collections.abc import Mapping

from tilework.errors import ScheduleError
from tilework.index.form import constant
from tilework.kinds.cuda.lower.fetch import Shares, Turn
from tilework.kinds.cuda.source.vectors import is_aligned, is_uniform
from tilework.kinds.cuda.staging import Box, Operand, aligned
from tilework.lower.common import ZERO, bind, const, load, placed
from tilework.lower.context import LoweringContext
from tilework.lower.ir import AsyncCopy, Buffer, Load, Stmt, Store
from tilework.space.blocks import Block
from tilework.space.bounds import conjunction
from tilework.te.expr import Axis, Const, Expr, IfThenElse, Read, binary, compare
from tilework.te.ranges import range_of
from tilework.te.tensor import Operation

_ASYNC_BYTES = 16


class Staged:
    """An operand that is staged.

    Args:
        ctx: the program's context.
        block: what reads it.
        operand: what is staged.
        box: what one fetch brings, for the only row.
        stages: fetches that shared memory holds at once.
        thread, threads: the thread's number, and how many there are.

    Attributes:
        buffer: in shared memory; its first dimension counts stages.
        shares: what each thread fetches.
        held: registers of a thread for a fetch on its way.
    """

    def __init__(
        self, ctx: LoweringContext, block: Block, operand: Operand, box: Box, stages: int,
        thread: Axis, threads: int,
    ) -> None:  # fmt: skip
        self.operand, self._ctx, self._block = operand, ctx, block
        tensor, itemsize = operand.read.tensor, operand.itemsize
        extents = tuple(int(e[0]) for e in box.extents)
        strides = tuple(int(s[0]) for s in box.strides)
        stage = int(aligned(box.reach * itemsize)[0]) // itemsize
        shape = (stages, *extents)
        self.buffer = Buffer(
            f"{tensor.name}.s", shape, tensor.dtype, "block", own_strides=(stage, *strides)
        )
        ctx.temporaries.append(self.buffer)
        width = int(box.width[0])
        self.shares = Shares(extents, width, threads, thread)
        shape = (*self.shares.turns, width)
        self.held = Buffer(f"{tensor.name}.next", shape, tensor.dtype, "register")

    # -- fetches ----------------------------------------------------------------------------------

    def fill(self, stage: Expr, first: Mapping[Axis, Expr]) -> Stmt:
        """Memory to shared memory.

        Args:
            stage: which of the stages.
            first: the first point of the fetch along each axis.
        """

        def body(turn: Turn) -> Stmt:
            return Store(self.buffer, (stage, *turn.local), self._value(turn, first))

        return self.shares.loop(body)

    def take(self, first: Mapping[Axis, Expr]) -> Stmt:
        """Memory to registers."""

        def body(turn: Turn) -> Stmt:
            return Store(self.held, _held(turn), self._value(turn, first))

        return self.shares.loop(body, expanded=True)

    def put(self, stage: Expr) -> Stmt:
        """Registers to shared memory."""

        def body(turn: Turn) -> Stmt:
            return Store(self.buffer, (stage, *turn.local), load(self.held, _held(turn)))

        return self.shares.loop(body, expanded=True)

    def copy(self, stage: Expr, first: Mapping[Axis, Expr]) -> Stmt:
        """Memory to shared memory past the registers."""

        def body(turn: Turn) -> Stmt:
            source, when = _copied(self._value(turn, first))
            return AsyncCopy(
                self.buffer, (stage, *turn.local), source.buffer, source.indices,
                self.shares.width, when,
            )  # fmt: skip

        return self.shares.loop(body, vector=False)

    def passes(self, first: Mapping[Axis, Expr]) -> bool:
        """Whether fetches may go past the registers: 16 bytes of memory as they are, or zeros."""
        if self.shares.width * self.operand.itemsize != _ASYNC_BYTES:
            return False
        fits = []

        def body(turn: Turn) -> Stmt:
            at, value = (ZERO, *turn.local), self._value(turn, first)
            core, good = value, is_aligned(self.buffer, at, turn.lane, {})
            while isinstance(core, IfThenElse) and isinstance(core.b, Const) and core.b.value == 0:
                good = good and is_uniform(core.cond, turn.lane, {})
                core = core.a
            if not isinstance(core, Load) or core.buffer.dtype != self.buffer.dtype:
                good = False
            else:
                good = good and is_aligned(core.buffer, core.indices, turn.lane, {})
            fits.append(good)
            return Store(self.buffer, at, value)

        self.shares.loop(body)
        return fits[0]

    # -- values -----------------------------------------------------------------------------------

    def _value(self, turn: Turn, first: Mapping[Axis, Expr]) -> Expr:
        """The element at a place of the box; zero where the box reaches over the tensor."""
        forms = self.operand.forms
        assert forms is not None
        at = []
        for form, local in zip(forms, turn.local, strict=True):
            at.append(binary("+", placed(form, first), local))
        value = element(self._ctx, self._block, self.operand.read.tensor.op, tuple(at))
        outside = [c for i, n in zip(at, self.operand.shape, strict=True) for c in within(i, n)]
        inside = conjunction(outside)
        if inside is None:
            return value
        return IfThenElse(value.dtype, inside, value, Const(value.dtype, 0))

    # -- reads ------------------------------------------------------------------------------------

    def read(self, stage: Expr, local: Mapping[Axis, Expr]) -> Load:
        """The element of the fetch at a point of the tile, by its place in it."""
        forms = self.operand.forms
        assert forms is not None
        at = [placed(f - constant(f.const), local) for f in forms]
        return load(self.buffer, (stage, *at))


def element(ctx: LoweringContext, block: Block, op: Operation, at: tuple[Expr, ...]) -> Expr:
    """An element of a tensor: from memory, or computed where it is read.

    Raises:
        ScheduleError: it is the result of a reduction that nobody has stored.
    """
    attached = next((a for a in block.attached if a.op is op), None)
    if attached is None:
        return load(ctx.buffers[op], at)
    if attached.block is not None:
        raise ScheduleError(f"{op.name} reduces and cannot be computed while it is staged")

    def resolve(producer: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
        return element(ctx, block, producer, indices)

    return bind(attached.body, dict(zip(attached.op.axes, at, strict=True)), resolve)


def within(index: Expr, size: int) -> list[Expr]:
    """Predicates that an index lies in a dimension, those that loop bounds do not answer."""
    bounds = range_of(index)
    out = []
    if bounds is None or bounds[0] < 0:
        out.append(compare(">=", index, const(0)))
    if bounds is None or bounds[1] >= size:
        out.append(compare("<", index, const(size)))
    return out


def _held(turn: Turn) -> tuple[Expr, ...]:
    lane: Expr = turn.lane if turn.lane.points > 1 else ZERO
    return (*turn.number, lane)


def _copied(value: Expr) -> tuple[Load, Expr | None]:
    """What is copied, and when."""
    conditions = []
    while isinstance(value, IfThenElse):
        conditions.append(value.cond)
        value = value.a
    assert isinstance(value, Load)
    return value, conjunction(conditions)
