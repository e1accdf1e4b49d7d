"""The interpreter for machines whose threads come in blocks: what a GPU's program means.

The threads of a block run in step: each statement is done by all that take part in it before any
does the next one. What varies with the thread is an array of one row per thread, of one column, or
of one for each lane of a vector loop. A condition that only some fulfil leaves the others out.

What that cannot find are races between barriers: threads in step never overtake each other. It
does report a barrier or an instruction of the warp that not all threads reach, two threads that
store different values to one element, and copies that are read before they have arrived.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.index.extents import shape_at
from tilework.index.symbols import Point
from tilework.lower import ir
from tilework.lower.interpret import Array, Machine
from tilework.lower.interpret_places import ProgramError
from tilework.lower.interpret_values import poisoned
from tilework.space.instructions import Instruction
from tilework.te.expr import Axis, Const, Expr, IfThenElse
from tilework.te.numeric import MATH

WARP = 32
_OWN = ("register", "thread")
"""Scopes of which each thread has its own elements."""
_BLOCK = (*_OWN, "block")
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.fmax.reduce, "min": np.fmin.reduce,
}  # fmt: skip

_Run = Callable[[], None]
_Copy = tuple[Array, tuple[Any, ...], Array]


class BlockMachine(Machine):
    """Blocks of threads of one region, one block after the other."""

    sliced = False

    def __init__(
        self, memory: dict[ir.Buffer, Array], owners: dict[ir.Buffer, Array], at: Point
    ) -> None:
        super().__init__(memory, owners, at)
        self._active = np.arange(1)
        self._threads = 1
        self._groups: list[list[_Copy]] = [[]]

    def run(self, region: ir.Region, start: int, stop: int) -> None:
        """Run the blocks ``start <= i < stop``."""
        self._threads = count = self.known(region.block_size)
        body = self.stmt(region.body)
        shape = tuple(self.known(v.extent) for v in region.threads)
        threads = np.unravel_index(np.arange(count), shape) if shape else ()
        points = itertools.product(*(range(self.known(v.extent)) for v in region.parallel))
        for i, point in enumerate(itertools.islice(points, start, stop), start):
            self.iteration = i
            self.env.update(zip(region.parallel, point, strict=True))
            self.env.update((v, t[:, None]) for v, t in zip(region.threads, threads, strict=True))
            self._active, self._groups = np.arange(count), [[]]
            if region.thread is not None:
                self.env[region.thread] = self._active[:, None]
            for buffer in [b for b in self.memory if b.scope in _BLOCK]:
                del self.memory[buffer]
            body()

    # -- threads ------------------------------------------------------------------------------

    @contextmanager
    def _only(self, taken: Array) -> Iterator[None]:
        """Threads that take part, of those that do now."""
        if taken.all():
            yield
            return
        active, env = self._active, dict(self.env)
        self._active = active[taken]
        for var, value in env.items():
            if np.ndim(value) == 2:
                self.env[var] = value[taken]
        yield
        self._active = active
        self.env.clear()
        self.env.update(env)

    def _everyone(self, what: str) -> None:
        if len(self._active) < self._threads:
            raise ProgramError(f"{what}: {len(self._active)} of {self._threads} threads reach it")

    def _sides(self, cond: Any) -> tuple[Array, Array]:
        """Which threads take either side."""
        taken = np.broadcast_to(cond, (len(self._active), 1))[:, 0]
        return taken, ~taken

    # -- statements ---------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt) -> _Run:
        """The statement as a function."""
        match s:
            case ir.If():
                return self._branch(s)
            case ir.Let():
                bound, inside = self.value(s.value), self.stmt(s.body)

                def define() -> None:
                    value = bound()
                    self.env[s.var] = value if np.ndim(value) else int(value)
                    inside()

                return define
            case ir.Barrier():
                return lambda: self._everyone("a barrier") if s.scope == "block" else None
            case ir.Combine():
                return lambda: self._combine(s)
            case ir.AsyncCopy():
                return self._copy(s)
            case ir.Commit():
                return lambda: self._groups.append([])
            case ir.Wait():
                return lambda: self._wait(s.left)
            case ir.Intrinsic(instruction=Instruction() as found):
                return self._multiply(s, found)
            case ir.Intrinsic(instruction=ir.Gather() as found):
                return self._gather(s, found)
            case ir.Intrinsic(instruction=ir.Bits()):
                return self._bits(s)
        return super().stmt(s)

    def _branch(self, s: ir.If) -> _Run:
        cond, then = self.value(s.cond), self.stmt(s.then)
        orelse = self.stmt(s.orelse) if s.orelse is not None else None

        def branch() -> None:
            for part in self._by_lane(cond()):
                for taken, side in zip(self._sides(part), (then, orelse), strict=True):
                    if side is not None and taken.any():
                        with self._only(taken):
                            side()

        return branch

    def _loop(self, s: ir.For) -> _Run:
        """Loops end when the last thread is done; others leave earlier, or come later."""
        if s.kind == "vector":
            return super()._loop(s)
        stop, start = self.bound(s.extent), self.bound(s.start)
        body, most = self.stmt(s.body), self.known(s.var.extent)

        def loop() -> None:
            first, end = start(), stop()
            low, high = int(np.min(first)), int(np.max(end))
            if low < 0 or high > most:
                raise ProgramError(f"loop {s.var.name}: {low} to {high} of {most}")
            self.steps += max(high - low, 0)
            for i in range(low, high):
                self.env[s.var] = i
                taken, _ = self._sides((first <= i) & (i < end))
                if taken.any():
                    with self._only(taken):
                        body()

        return loop

    def _put(self, buffer: ir.Buffer, at: tuple[Any, ...], result: Any) -> None:
        """Store elements of all threads at once, of which none may undo another's."""
        at = tuple(map(np.atleast_2d, at)) or (None, None)
        super()._put(buffer, at, result)
        found = self._array(buffer)[at]
        if not np.all((found == result) | ((found != found) & (result != result))):
            raise ProgramError(f"threads store different values to an element of {buffer.name}")

    def _combine(self, s: ir.Combine) -> None:
        self._everyone("a reduction over threads")
        array = self._array(s.buffer)
        groups = array.reshape(-1, s.lanes, *shape_at(s.buffer.shape, self.at))
        array[...] = np.repeat(_REDUCE[s.kind](groups, axis=1), s.lanes, axis=0)

    def _copy(self, s: ir.AsyncCopy) -> _Run:
        to, start = self._position(s.target, s.at), self._position(s.source, s.start)
        when = self.value(s.when) if s.when is not None else lambda: True
        neighbours = np.arange(s.count)

        def copy() -> None:
            *outer, last = to()
            where = (*outer, last + neighbours)
            values = np.zeros((len(self._active), s.count), numpy_dtype(s.source.dtype))
            taken, _ = self._sides(when())
            if taken.any():
                with self._only(taken):
                    *rest, first = start()
                    values[taken] = self._array(s.source)[(*rest, first + neighbours)]
            target = self._array(s.target)
            target[where] = poisoned((), s.target.dtype)
            self._groups[-1].append((target, where, values))

        return copy

    def _wait(self, left: int) -> None:
        *done, last = self._groups
        count = max(len(done) - left, 0)
        for target, where, values in itertools.chain.from_iterable(done[:count]):
            target[where] = values
        self._groups = [*done[count:], last]

    # -- instructions of a warp ---------------------------------------------------------------

    def _registers(self, e: ir.Load, count: int) -> Callable[[], tuple[Any, ...]]:
        """Positions of neighbouring registers, of all threads."""
        where = self._position(e.buffer, e.indices)

        def registers() -> tuple[Any, ...]:
            self._everyone("an instruction of the warp")
            *outer, first = where()
            return (*outer, first + np.arange(count))

        return registers

    def _multiply(self, s: ir.Intrinsic, instruction: Instruction) -> _Run:
        """The meaning for all points of a warp's tile, which threads hold in pieces."""
        i, warps = instruction, self._threads // WARP
        assert i.fragments is not None
        tiles = (
            ir.Buffer("left", (warps, i.rows, i.terms), i.left, "global"),
            ir.Buffer("right", (warps, i.columns, i.terms), i.right, "global"),
            ir.Buffer("sums", (warps, i.rows, i.columns), i.result, "global"),
        )
        w, m, n = (Axis("int32", a, e, "loop") for a, e in zip("wmn", tiles[2].shape, strict=True))
        self.env |= dict(zip((w, m, n), np.ogrid[:warps, : i.rows, : i.columns], strict=True))
        terms = [Const("int32", t) for t in range(i.terms)]
        left, right, sums = tiles
        meaning = self.value(
            i.meaning(
                ir.Load(i.result, sums, (w, m, n)),
                [ir.Load(i.left, left, (w, m, t)) for t in terms],
                [ir.Load(i.right, right, (w, n, t)) for t in terms],
            )
        )
        held = [
            (e.buffer, tile, _numbered(f.element, f.registers, tile.dtype),
             self._registers(e, f.registers))
            for e, tile, f in zip((*s.ins, *s.outs), tiles, i.fragments, strict=True)
        ]  # fmt: skip

        def multiply() -> None:
            for buffer, tile, (row, column), where in held:
                parts = self._array(buffer)[where()].view(numpy_dtype(tile.dtype))
                whole = self.memory[tile] = poisoned(shape_at(tile.shape, self.at), tile.dtype)
                whole[:, row, column] = parts.reshape(warps, *row.shape)
            result = meaning()
            buffer, _, (row, column), where = held[-1]
            self._array(buffer)[where()] = result[:, row, column].reshape(self._threads, -1)

        return multiply

    def _gather(self, s: ir.Intrinsic, gather: ir.Gather) -> _Run:
        (out,), (source,) = s.outs, s.ins
        place = self._position(source.buffer, source.indices)
        registers = self._registers(out, gather.registers)
        namer, behind = _numbered(gather.element, gather.registers, source.dtype)

        def load() -> None:
            where = registers()
            at = [np.broadcast_to(i, (self._threads, 1)).reshape(-1, WARP) for i in place()]
            at = [i[:, namer] for i in at]
            found = self._array(source.buffer)[(*at[:-1], at[-1] + behind)]
            words = np.ascontiguousarray(found).reshape(self._threads, -1)
            self._array(out.buffer)[where] = words.view(numpy_dtype(out.dtype))

        return load

    def _bits(self, s: ir.Intrinsic) -> _Run:
        (out,), (e,) = s.outs, s.ins
        function = MATH[s.instruction.name]
        value, where = self.value(e), self._position(out.buffer, out.indices)

        def store() -> None:
            found = np.ascontiguousarray(function(value().view(np.float32)), np.float32)
            self._array(out.buffer)[where()] = found.view(numpy_dtype(out.dtype))

        return store

    # -- memory and expressions ---------------------------------------------------------------

    def _array(self, buffer: ir.Buffer) -> Array:
        if buffer not in self.memory and buffer.scope in _OWN:
            shape = (self._threads, *shape_at(buffer.shape, self.at))
            self.memory[buffer] = poisoned(shape, buffer.dtype)
        return super()._array(buffer)

    def _position(
        self, buffer: ir.Buffer, indices: tuple[Expr, ...]
    ) -> Callable[[], tuple[Any, ...]]:
        position = super()._position(buffer, indices)
        if buffer.scope not in _OWN:
            return position
        return lambda: (self._active[:, None], *position())

    def _index(self, e: Expr) -> Callable[[], tuple[Any, int, int]]:
        value = self.value(e)

        def index() -> tuple[Any, int, int]:
            i = value()
            return i, np.min(i), np.max(i)

        return index

    def _choose(self, e: IfThenElse) -> Callable[[], Any]:
        """Each side is evaluated for the threads that take it, lane by lane where lanes differ."""
        c, a, b = self.value(e.cond), self.value(e.a), self.value(e.b)
        kind = numpy_dtype(e.dtype)

        def one(cond: Any) -> Array:
            out = np.empty((len(self._active), 1), kind)
            for taken, side in zip(self._sides(cond), (a, b), strict=True):
                if taken.any():
                    with self._only(taken):
                        out[taken] = side()
            return out

        def choose() -> Any:
            cond = c()
            if np.ndim(cond) == 0:
                return a() if cond else b()
            return np.concatenate([one(part) for part in self._by_lane(cond)], axis=1)

        return choose

    def _by_lane(self, cond: Array) -> Iterator[Array]:
        """A condition's column for each lane; the vector loop is at that lane meanwhile."""
        var = self.lane_var
        if var is None or np.ndim(cond) == 0:
            yield cond
            return
        lanes, self.lane_var = self.env[var], None
        for i, lane in enumerate(lanes):
            self.env[var] = int(lane)
            yield cond[..., min(i, cond.shape[-1] - 1), None]
        self.env[var], self.lane_var = lanes, var


def _numbered(element: Callable[..., Any], registers: int, dtype: str) -> tuple[Array, Array]:
    """What a warp's threads have in their registers and parts of registers, for all of them."""
    parts = max(4 // numpy_dtype(dtype).itemsize, 1)
    lane, register, part = np.ogrid[:WARP, :registers, :parts]
    found = np.broadcast_arrays(*element(lane, register, part), lane + register + part)
    return found[0], found[1]
