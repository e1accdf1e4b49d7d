"""Loop programs whose extents a run brings, by hand: every kind of trip, stride and mask."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tests.hosts import on_x86, x86
from tests.kinds.cpu.guards import run_at
from tilework import te
from tilework.dtypes import NARROW_FLOATS, numpy_dtype
from tilework.index.symbols import Symbolic, symbol
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.program import generate_program
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.common import const, loop_var
from tilework.lower.interpret import interpret
from tilework.lower.ir import Buffer, For, If, Let, Load, Program, Region, Store, seq
from tilework.lower.kernel import Kernel, kernel_args
from tilework.te.expr import Cast, Expr, IfThenElse, binary, compare

CPUS = on_x86("znver4", "haswell", "x86-64")
N, M = symbol("n", 1, 200), symbol("m", 1, 40)
(N_,), (M_,) = N.symbols, M.symbols
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 64, 97, 128, 200)


def kernel_of(program: Program, cpu: str, cores: int = 2) -> Kernel:
    target = CpuTarget(x86(cpu, cores))
    source = generate_program(program, target)
    return Kernel(
        source.symbol,
        tuple((m.symbol, emit_object(m.text, target)) for m in source.modules),
        source.code_hash,
        kernel_args(program, {}),
        source.shared_workspace,
        source.thread_workspace,
    )


def drawn(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    """Whole numbers, so that sums of them are exact in any order."""
    low, high = (0, 2) if dtype == "bool" else (0, 90) if dtype[0] == "u" else (-9, 10)
    return rng.integers(low, high, shape).astype(numpy_dtype(dtype))


def check(program: Program, cpu: str, points, want: Callable[..., list[np.ndarray]]) -> None:
    """The kernels give what ``want`` makes of their inputs, and so does the interpreter."""
    rng = np.random.default_rng(0)
    one, two = (load_kernel(kernel_of(program, cpu, cores)) for cores in (1, 2))
    ways = itertools.product(((one, 1), (two, 1), (two, 2)), (True, False))
    every = [(loaded, n, at_end) for (loaded, n), at_end in ways]
    for at in points:
        shapes = [
            tuple(e.value(at) if isinstance(e, Symbolic) else e for e in b.shape)
            for b in program.inputs
        ]
        inputs = [drawn(rng, s, b.dtype) for s, b in zip(shapes, program.inputs, strict=True)]
        right = want(*inputs)
        for loaded, n, at_end in every:
            got = run_at(loaded, at, inputs, n, at_end)
            for g, w in zip(got, right, strict=True):
                np.testing.assert_array_equal(g, w, str(at))
        for g, w in zip(interpret(program, inputs, at=at), right, strict=True):
            np.testing.assert_array_equal(g, w, str(at))


def at_lengths():
    return [{N_: n, M_: m} for n, m in zip(LENGTHS, itertools.cycle((1, 2, 5, 17, 40)))]


def masked(extent: int, left: Expr, body: Callable[[Expr], Store], tile: int = 48) -> For:
    lane = loop_var("lane", extent)
    return For(lane, extent, "vector", body(lane), active=left)


def tiles(size: Symbolic, tile: int, body: Callable[[Expr, Expr | None], object]):
    """A parallel loop over tiles: ``body`` of the first point, and of how many are left."""
    i = loop_var("i", -(-size // tile))
    base = binary("*", i, const(tile))
    rest = loop_var("rest", tile)
    left = binary("-", const(size), base)
    part = Let(rest, left, body(base, rest))
    return i, If(compare(">=", left, const(tile)), body(base, None), part)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
    ],
)
def test_masked_elements_of_every_type(cpu, dtype):
    a, b = Buffer("a", (M, N), dtype, "input"), Buffer("b", (M, N), dtype, "output")
    row = loop_var("row", M)

    def body(base, rest):
        def store(lane):
            at = (row, binary("+", base, lane))
            value = Load(dtype, a, at)
            return Store(b, at, twice(value))

        return masked(48, rest, store)

    i, stmt = tiles(N, 48, body)
    program = Program((a,), (b,), (), (Region("r", (row, i), stmt),))
    check(program, cpu, at_lengths(), lambda x: [x if dtype == "bool" else x + x])


def twice(value: Expr) -> Expr:
    if value.dtype == "bool":
        return value
    if value.dtype in NARROW_FLOATS:
        one = Cast("float32", value)
        return Cast(value.dtype, binary("+", one, one))
    return binary("+", value, value)


def f32(buffer: Buffer, *indices) -> Load:
    return Load(buffer.dtype, buffer, tuple(indices))


@pytest.mark.parametrize("cpu", CPUS)
def test_sums_over_a_symbolic_axis_in_masked_lanes(cpu):
    """Registers keep what they hold in lanes that do not count: sums, and maxima below zero."""
    a = Buffer("a", (M, N), "float32", "input")
    outs = [Buffer(name, (M,), "float32", "output") for name in ("sum", "max")]
    accs = [Buffer(f"{o.name}.acc", (16,), "float32", "register") for o in outs]
    row, k, rest, lane = (
        loop_var(x, n) for x, n in (("row", M), ("k", N // 16), ("rest", 16), ("l", 16))
    )
    starts = (0.0, -np.inf)
    ops = ("+", "max")

    def vectors(make, active=None):
        return seq(
            *(
                For(lane, 16, "vector", make(*one), active=active)
                for one in zip(accs, starts, ops, strict=True)
            )
        )

    init = vectors(lambda acc, start, op: Store(acc, (lane,), te.expr.Const("float32", start)))

    def update(at):
        return lambda acc, start, op: Store(
            acc, (lane,), binary(op, f32(acc, lane), f32(a, row, binary("+", at, lane)))
        )

    main = For(k, N // 16, "serial", vectors(update(binary("*", k, const(16)))))
    left = Let(
        rest,
        const(N - N // 16 * 16),
        For(
            one := loop_var("one", 1),
            binary("min", rest, const(1)),
            "serial",
            vectors(update(binary("+", binary("*", one, const(16)), const(N // 16 * 16))), rest),
        ),
    )
    done = []
    for acc, out, op in zip(accs, outs, ops, strict=True):
        total = f32(acc, const(0))
        for i in range(1, 16):
            total = binary(op, total, f32(acc, const(i)))
        done.append(Store(out, (row,), total))
    program = Program((a,), tuple(outs), (), (Region("r", (row,), seq(init, main, left, *done)),))
    check(program, cpu, at_lengths(), lambda x: [x.sum(1), x.max(1)])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("columns", (N, 50))
def test_products_in_tiles_of_rows(cpu, columns):
    """A tile of symbolic rows and columns over a symbolic sum; a version for each rest."""
    a, b = Buffer("a", (M, N), "float32", "input"), Buffer("b", (N, columns), "float32", "input")
    c = Buffer("c", (M, columns), "float32", "output")
    wide = 32 if columns is N else 25

    def tile(rows, i, j, some):
        acc = Buffer(f"acc{rows}", (rows, 32), "float32", "register")
        r, lane = loop_var("r", rows), loop_var("l", wide)
        k, u, left = loop_var("k", N // 4), loop_var("u", 4), loop_var("left", N)
        at = (binary("+", i, r), binary("+", j, lane))

        def nest(store, inner=()):
            body = For(lane, wide, "vector", store, active=some)
            body = For(r, rows, "unroll", body)
            return For(u, 4, "unroll", body) if inner else body

        def update(k_):
            product = binary("*", f32(a, at[0], k_), f32(b, k_, at[1]))
            return Store(acc, (r, lane), binary("+", f32(acc, r, lane), product))

        return seq(
            nest(Store(acc, (r, lane), te.expr.Const("float32", 0.0))),
            For(k, N // 4, "serial", nest(update(binary("+", binary("*", k, const(4)), u)), (u,))),
            For(left, N, "serial", nest(update(left)), N // 4 * 4),
            nest(Store(c, at, f32(acc, r, lane))),
        )

    j = loop_var("j", -(-N // wide) if columns is N else 2)
    rest_j, i = loop_var("j.rest", wide), loop_var("i", -(-M // 4))
    rest_i = loop_var("i.rest", 4)
    base_i, base_j = binary("*", i, const(4)), binary("*", j, const(wide))

    def along(rows):
        if columns is not N:
            return tile(rows, base_i, base_j, None)
        left = binary("-", const(N), base_j)
        return If(
            compare(">=", left, const(wide)),
            tile(rows, base_i, base_j, None),
            Let(rest_j, left, tile(rows, base_i, base_j, rest_j)),
        )

    left = binary("-", const(M), base_i)
    few = along(1)
    for n in (2, 3):
        few = If(compare("==", rest_i, const(n)), along(n), few)
    stmt = If(compare(">=", left, const(4)), along(4), Let(rest_i, left, few))
    program = Program((a, b), (c,), (), (Region("r", (i, j), stmt),))
    check(program, cpu, at_lengths(), lambda x, y: [x @ y])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_lanes_that_lie_apart_or_where_data_say(cpu, dtype):
    """Transposed, gathered, guarded: lanes that do not count touch nothing."""
    a, places = Buffer("a", (N, M), dtype, "input"), Buffer("p", (N,), "int32", "input")
    flipped = Buffer("flipped", (N, M), dtype, "output")
    across = Buffer("across", (M, N), dtype, "output")
    taken = Buffer("taken", (M, N), dtype, "output")
    shifted = Buffer("shifted", (M, N), dtype, "output")
    back = Buffer("back", (M, N), "float32", "output")
    row = loop_var("row", M)

    def body(base, rest):
        def at(lane):
            return binary("+", base, lane)

        def position(lane):  # of data: where they may not be read, they are nowhere
            place = Load("int32", places, (at(lane),))
            return binary("max", binary("min", place, const(N - 1)), const(0))

        def before(lane):
            inside = compare(">=", at(lane), const(1))
            far = Load(dtype, a, (binary("-", at(lane), const(1)), row))
            return IfThenElse(dtype, inside, far, te.expr.Const(dtype, 0))

        def column(lane):
            return Load(dtype, a, (at(lane), row))

        return seq(
            masked(48, rest, lambda v: Store(flipped, (at(v), row), column(v))),
            masked(48, rest, lambda v: Store(across, (row, at(v)), column(v))),
            masked(
                48, rest, lambda v: Store(taken, (row, at(v)), Load(dtype, a, (position(v), row)))
            ),
            masked(48, rest, lambda v: Store(shifted, (row, at(v)), before(v))),
            masked(
                48,
                rest,
                lambda v: Store(
                    back,
                    (row, at(v)),
                    Cast("float32", binary("-", binary("*", const(N), at(v)), row)),
                ),
            ),
        )

    def want(x, p):
        shift = np.concatenate([np.zeros_like(x[:1]), x[:-1]]).T
        n, m = x.shape
        numbers = n * np.arange(n) - np.arange(m)[:, None]
        return [x, x.T, x[np.clip(p, 0, n - 1)].T, shift, numbers.astype("float32")]

    i, stmt = tiles(N, 48, body)
    outs = (flipped, across, taken, shifted, back)
    program = Program((a, places), outs, (), (Region("r", (row, i), stmt),))
    check(program, cpu, at_lengths(), want)


@pytest.mark.parametrize("cpu", CPUS)
def test_memory_between_regions_and_of_threads_is_where_symbols_say(cpu):
    a = Buffer("a", (M, N), "float32", "input")
    sums, scale = (
        Buffer("sums", (M,), "float32", "global"),
        Buffer("s", (N, 3), "float32", "global"),
    )
    own = Buffer("own", (2, N), "float32", "thread")
    out = Buffer("out", (M, N), "float32", "output")
    row, k, j, again = (loop_var(x, n) for x, n in (("row", M), ("k", N), ("j", N), ("z", N)))
    copied = For(k, N, "serial", Store(own, (const(1), k), f32(a, row, k)))
    total = For(
        j, N, "serial", Store(sums, (row,), binary("+", f32(sums, row), f32(own, const(1), j)))
    )
    first = seq(copied, Store(sums, (row,), te.expr.Const("float32", 0.0)), total)
    second = For(
        k, N, "serial", Store(scale, (k, const(2)), Cast("float32", binary("+", k, const(M))))
    )
    third = For(
        again,
        N,
        "serial",
        Store(
            out,
            (row, again),
            binary(
                "+", f32(sums, row), binary("*", f32(a, row, again), f32(scale, again, const(2)))
            ),
        ),
    )
    program = Program(
        (a,),
        (out,),
        (sums, scale, own),
        (
            Region("first", (row,), first),
            Region("second", (), second),
            Region("third", (row,), third),
        ),
    )

    def want(x):
        m, n = x.shape
        return [x.sum(1, keepdims=True) + x * (np.arange(n) + m)]

    check(program, cpu, at_lengths(), want)
