"""Reference interpreter of loop programs: what a program means, without LLVM.

Vector loops become NumPy operations, all other loops run in Python. Every access is checked
against its buffer's shape, buffers start poisoned, and two iterations of a parallel region that
touch the same element (one of them writing) are reported: the interpreter says *why* a program is
wrong where generated code would only give wrong numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import converted, is_float_array, numpy_dtype
from tilework.index.extents import Extent, shape_at
from tilework.index.symbols import Point, value_at
from tilework.lower import ir
from tilework.lower.interpret_places import ProgramError, check_owner, linear_position, outside
from tilework.lower.interpret_values import literal, operator, poisoned, select
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.numeric import MATH

LANES = 8
"""Elements of a vector loop that count as one step."""

Array = NDArray[Any]
_Eval = Callable[[], Any]
_Run = Callable[[], None]
EVERYWHERE: Point = {}
"""The point of a program without symbols."""


@dataclass
class Meter:
    """What interpreting a program took, in numbers that are the same at every run.

    Attributes:
        regions: regions run.
        steps: of the thread with most of them, summed over the regions. A step is an iteration of
            a serial loop, or a store of up to `LANES` elements.
    """

    regions: int = 0
    steps: int = 0


def interpret(
    program: ir.Program,
    inputs: Sequence[Array],
    *,
    at: Point = EVERYWHERE,
    threads: int = 1,
    reverse: bool = False,
    meter: Meter | None = None,
    machine: type[Machine] | None = None,
) -> list[Array]:
    """Run a program.

    Args:
        program: what to run.
        inputs: one array per input buffer, packed as the lowering says.
        at: values of the program's symbols.
        threads: parallel loops are cut into this many contiguous chunks; each has thread buffers
            of its own.
        reverse: run the chunks from the last to the first.
        meter: counts what is executed.
        machine: runs the regions, if not a `Machine`: the tests of GPUs have one whose threads
            come in blocks.

    Returns:
        One array per output buffer.

    Raises:
        ProgramError: an access falls outside its buffer, or two parallel iterations race.
        ValueError: an input has another shape or type than its buffer, or a symbol has no value
            or one outside its range.
    """
    _check_point(program, at)
    memory: dict[ir.Buffer, Array] = {}
    for buffer, array in zip(program.inputs, inputs, strict=True):
        shape = shape_at(buffer.shape, at)
        if tuple(array.shape) != shape or array.dtype != numpy_dtype(buffer.dtype):
            raise ValueError(
                f"input {buffer.name}: expected {buffer.dtype}{list(shape)}, "
                f"got {array.dtype}{list(array.shape)}"
            )
        memory[buffer] = array
    shared = [b for b in program.temporaries if b.scope == "global"]
    for buffer in (*program.outputs, *shared):
        memory[buffer] = poisoned(shape_at(buffer.shape, at), buffer.dtype)
        if buffer.scope == "updated":
            memory[buffer][...] = inputs[0]
    private = [b for b in program.temporaries if b.scope == "thread"]
    with np.errstate(all="ignore"):
        for region in program.regions:
            written = (*program.outputs, *shared)
            owners = {b: np.full(memory[b].shape, -1, np.int64) for b in written}
            total = math.prod(value_at(v.extent, at) for v in region.parallel)
            chunks = [(t * total // threads, (t + 1) * total // threads) for t in range(threads)]
            steps = []
            for start, stop in reversed(chunks) if reverse else chunks:
                own = {b: poisoned(shape_at(b.shape, at), b.dtype) for b in private}
                runs = (machine or Machine)({**memory, **own}, owners, at)
                runs.run(region, start, stop)
                steps.append(runs.steps)
            if meter is not None:
                meter.regions += 1
                meter.steps += max(steps)
    return [memory[b] for b in program.outputs]


def _check_point(program: ir.Program, at: Point) -> None:
    for symbol in program.symbols:
        if symbol not in at or not symbol.low <= at[symbol] <= symbol.high:
            raise ValueError(
                f"symbol {symbol.name} is {at.get(symbol, 'not given')}: it goes from "
                f"{symbol.low} to {symbol.high}"
            )


class Machine:
    """One thread of one region: loop variables, and statements compiled to closures.

    Attributes:
        sliced: only loop variables of vectors are arrays.
    """

    sliced = True

    def __init__(
        self, memory: dict[ir.Buffer, Array], owners: dict[ir.Buffer, Array], at: Point
    ) -> None:
        self.memory = memory
        self.owners = owners
        self.at = at
        self.env: dict[x.Axis, Any] = {}
        self.iteration = 0
        self.lane_var: x.Axis | None = None
        self.steps = 0
        self._lanes = 1
        self._values: dict[int, tuple[x.Expr, _Eval]] = {}
        self._tables: set[x.Expr] = set()

    def run(self, region: ir.Region, start: int, stop: int) -> None:
        """Run the fused parallel iterations ``start <= i < stop``."""
        body = self.stmt(region.body)
        points = itertools.product(*(range(self.known(v.extent)) for v in region.parallel))
        for i, point in enumerate(itertools.islice(points, start, stop), start):
            self.iteration = i
            self.env.update(zip(region.parallel, point, strict=True))
            body()

    def known(self, extent: Extent) -> int:
        """An extent at the point where the program runs."""
        return value_at(extent, self.at)

    # -- statements -------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt) -> _Run:
        """The statement as a function."""
        match s:
            case ir.Seq():
                parts = [self.stmt(x) for x in s.stmts]

                def sequence() -> None:
                    for part in parts:
                        part()

                return sequence
            case ir.For():
                return self._loop(s)
            case ir.If():
                cond, then = self.value(s.cond), self.stmt(s.then)
                orelse = self.stmt(s.orelse) if s.orelse is not None else None

                def branch() -> None:
                    if cond():
                        then()
                    elif orelse is not None:
                        orelse()

                return branch
            case ir.Store():
                return self._store(s)
            case ir.Claim():
                return lambda: None
            case ir.Matrix():
                return self.stmt(s.body)
            case ir.Let():
                bound, inside = self.value(s.value), self.stmt(s.body)

                def define() -> None:
                    self.env[s.var] = int(bound())
                    inside()

                return define
        raise TypeError(f"cannot interpret {type(s).__name__}")

    def _loop(self, s: ir.For) -> _Run:
        env, body = self.env, self.stmt(s.body)
        stop, start = self.bound(s.extent), self.bound(s.start)
        most = self.known(s.var.extent)
        active = stop if s.active is None else self.value(s.active)

        def serial() -> None:
            first, count = int(start()), int(stop())
            if count > most:
                raise ProgramError(f"loop {s.var.name}: {count} > {most} iterations")
            if first < 0:
                raise ProgramError(f"loop {s.var.name} starts at {first}")
            self.steps += max(count - first, 0)
            for i in range(first, count):
                env[s.var] = i
                body()

        def vector() -> None:
            count = int(active())
            if not 1 <= count <= int(stop()):
                raise ProgramError(f"vector {s.var.name}: {count} of {stop()} points count")
            env[s.var], self.lane_var = np.arange(count), s.var
            self._lanes = -(-count // LANES)
            body()
            self.lane_var, self._lanes = None, 1

        return vector if s.kind == "vector" else serial

    def bound(self, bound: Extent | x.Expr) -> _Eval:
        """The end of a loop as a function."""
        if isinstance(bound, x.Expr):
            return self.value(bound)
        number = self.known(bound)
        return lambda: number

    def _store(self, s: ir.Store) -> _Run:
        where, value = self._position(s.buffer, s.indices), self.value(s.value)

        def store() -> None:
            self.steps += self._lanes
            self._put(s.buffer, where(), value())

        return store

    def _put(self, buffer: ir.Buffer, at: tuple[Any, ...], result: Any) -> None:
        """Store elements."""
        array, kind = self._array(buffer), np.asarray(result).dtype
        if kind != array.dtype and (kind.kind != array.dtype.kind or is_float_array(array)):
            raise ProgramError(f"store to {buffer.name} of {kind}, not {array.dtype}")
        owner = self.owners.get(buffer)
        if owner is not None:
            check_owner(buffer, owner[at], self.iteration, "is written")
            owner[at] = self.iteration
        array[at] = result

    # -- memory -----------------------------------------------------------------------------

    def _array(self, buffer: ir.Buffer) -> Array:
        array = self.memory.get(buffer)
        if array is None:  # registers come into being where they are first used
            shape = shape_at(buffer.shape, self.at)
            array = self.memory[buffer] = poisoned(shape, buffer.dtype)
        return array

    def _position(
        self, buffer: ir.Buffer, indices: tuple[x.Expr, ...]
    ) -> Callable[[], tuple[Any, ...]]:
        shape = shape_at(buffer.shape, self.at)
        forms = [linear(i) for i in indices]
        if self.sliced and None not in forms:
            sums = [
                (self.known(f.const), [(v, self.known(c)) for v, c in f.coefficients.items()], n)
                for f, n in zip(forms, shape, strict=True)
                if f is not None
            ]
            return linear_position(buffer, sums, self.env, lambda: self.lane_var)
        parts = [(self._index(i), n) for i, n in zip(indices, shape, strict=True)]

        def position() -> tuple[Any, ...]:
            at = []
            for index, extent in parts:
                i, low, high = index()
                if low < 0 or high >= extent:
                    raise outside(buffer, shape, [index()[0] for index, _ in parts])
                at.append(i)
            return tuple(at)

        return position

    def _index(self, e: x.Expr) -> Callable[[], tuple[Any, int, int]]:
        """An index as a function: its value, and the least and the largest one over the lanes.

        Most are linear in the loop variables. Summing their terms takes a fraction of the time
        that a closure for each operation would, and half of a program's work is on indices.
        """
        form, env = linear(e), self.env
        if form is None:
            value = self.value(e)

            def index() -> tuple[Any, int, int]:
                i = value()
                return (i, i, i) if isinstance(i, int) else (i, np.min(i), np.max(i))

            return index
        const = self.known(form.const)
        terms = tuple((axis, self.known(c)) for axis, c in form.coefficients.items())

        def sum_of_terms() -> tuple[Any, int, int]:
            i: Any = const
            for axis, c in terms:
                i = i + c * env[axis]
            if isinstance(i, int):
                return i, i, i
            first, last = int(i[0]), int(i[-1])  # lanes count up
            return (i, first, last) if first <= last else (i, last, first)

        return sum_of_terms

    def _load(self, e: ir.Load) -> _Eval:
        where = self._position(e.buffer, e.indices)

        def load() -> Any:
            at = where()
            owner = self.owners.get(e.buffer)
            if owner is not None:
                check_owner(e.buffer, owner[at], self.iteration, "is read")
            return self._array(e.buffer)[at]

        return load

    # -- expressions ------------------------------------------------------------------------

    def value(self, e: x.Expr) -> _Eval:
        """The expression as a function; index arithmetic gives Python integers."""
        hit = self._values.get(id(e))
        if hit is None:
            hit = self._values[id(e)] = (e, self._compile(e))
        return hit[1]

    def _compile(self, e: x.Expr) -> _Eval:
        env = self.env
        match e:
            case x.Const():
                number = literal(e, self.at)
                return lambda: number
            case x.Axis():
                return lambda: env[e]
            case ir.Load():
                return self._load(e)
            case x.Binary() | x.Compare() | x.Logic():
                fn = operator(e)
                a, b = self.value(e.a), self.value(e.b)
                return lambda: fn(a(), b())
            case x.Not():
                a = self.value(e.a)
                return lambda: np.logical_not(a())
            case x.Select():
                c, a, b = self.value(e.cond), self.value(e.a), self.value(e.b)
                return select(e, c, a, b, self._tables)
            case x.IfThenElse():
                return self._choose(e)
            case x.Cast():
                a, to = self.value(e.a), e.dtype
                return lambda: converted(a(), to)[()]
            case x.Lookup():
                at = [self.value(x) for x in e.indices]
                table = np.array(e.values, numpy_dtype(e.dtype)).reshape(e.shape)
                return lambda: table[tuple(x() for x in at)]
            case ir.Dot():
                return self.value(e.meaning)
            case x.Call():
                args = [self.value(x) for x in e.args]
                call = MATH[e.name]
                kind = numpy_dtype(e.dtype)
                return lambda: np.asarray(call(*(x() for x in args))).astype(kind)[()]
        raise TypeError(f"cannot interpret {type(e).__name__}")

    def _choose(self, e: x.IfThenElse) -> _Eval:
        """The side not taken is never evaluated; a predicate that varies goes lane by lane."""
        c, a, b = self.value(e.cond), self.value(e.a), self.value(e.b)

        def choose() -> Any:
            cond = c()
            if np.ndim(cond) == 0:
                return a() if cond else b()
            var = self.lane_var
            assert var is not None
            lanes, out = self.env[var], []
            for i in range(len(lanes)):
                self.env[var] = int(lanes[i])
                out.append(a() if cond[i] else b())
            self.env[var] = lanes
            return np.array(out, numpy_dtype(e.dtype))

        return choose
