"""Kernels whose extents a run brings, over kernels of one extent.

    python benchmarks/open_extents.py [--cases dense,scores,...] [--mcpu znver4] [--threads 1]
                                      [--points 1,7,16,31,64,100,128,384,512] [--seconds 0.1]
                                      [--drafted]

One kernel serves every length S from 1 to 521; its row is the draft's for 384, or its two rows.
Those of windows are of square images, of 1 to 224 rows. Beside it, at each point, stands a kernel
of that length alone: of the same row where it is a schedule there, else of the draft's own choice
(marked *), which ``--drafted`` always takes. Both take the same arrays where they pack weights
alike, have the same results, and take turns; a ratio is the median over pairs of their times. A
time is that of the kernel of one length, and what the other one takes more. What is over 1.15, and
below 64 over 1.3, and more than 0.3 us, is marked !.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilework import ops, te
from tilework.errors import ScheduleError
from tilework.index.extents import Extent, shape_at
from tilework.index.symbols import Symbol, symbol, value_at
from tilework.kinds.cpu.build import BUILDER, build
from tilework.kinds.cpu.kernel_call import BoundKernel, load_kernel
from tilework.lower.kernel import Kernel
from tilework.model.choice import Choice
from tilework.model.drafted import draft_schedule
from tilework.runtime.arrays import aligned_empty
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import at_point

S = symbol("S", 1, 521, (384,))
N = symbol("N", 1, 224, (16, 32, 64))
HEADS, WIDTH = 12, 64


def dense(columns: int, rows: Extent = S) -> te.ComputeDAG:
    """Rows times a matrix, and a bias."""
    x, w = te.placeholder((rows, 768), "x"), te.placeholder((columns, 768), "w")
    b, y = te.placeholder((columns,), "b"), ops.dense(x, w)
    return te.ComputeDAG([x, w, b, te.compute(y.shape, lambda i, j: y[i, j] + b[j], "out")])


def scores(s: Extent = S) -> te.ComputeDAG:
    """Queries times keys, of each head."""
    q, k = te.placeholder((HEADS, s, WIDTH), "q"), te.placeholder((HEADS, WIDTH, s), "k")
    d = te.reduce_axis(WIDTH, "d")
    out = te.compute((HEADS, s, s), lambda h, i, j: te.sum(q[h, i, d] * k[h, d, j], d), "scores")
    return te.ComputeDAG([q, k, out])


def mixed() -> te.ComputeDAG:
    """Probabilities times values."""
    p, v = te.placeholder((HEADS, S, S), "p"), te.placeholder((HEADS, S, WIDTH), "v")
    j = te.reduce_axis(S, "j")
    out = te.compute((HEADS, S, WIDTH), lambda h, i, d: te.sum(p[h, i, j] * v[h, j, d], j), "out")
    return te.ComputeDAG([p, v, out])


def norm() -> te.ComputeDAG:
    """Layer norm of each row."""
    x, scale = te.placeholder((S, 768), "x"), te.placeholder((768,), "scale")
    a, c = te.reduce_axis(768, "a"), te.reduce_axis(768, "c")
    mean = te.compute((S,), lambda i: te.sum(x[i, a] * (1 / 768), a), "mean")
    var = te.compute(
        (S,), lambda i: te.sum((x[i, c] - mean[i]) * (x[i, c] - mean[i]) * (1 / 768), c), "var"
    )
    out = te.compute(
        (S, 768), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(var[i] + 1e-5) * scale[j], "out"
    )
    return te.ComputeDAG([x, scale, out])


def softmax(length: Extent, rows: Extent = S) -> te.ComputeDAG:
    """Softmax of rows of a length."""
    x = te.placeholder((HEADS, rows, length), "x")
    return te.ComputeDAG([x, ops.softmax(x)])


def convolution(channels: int, filters: int, size: int, stride: int) -> te.ComputeDAG:
    """Square windows of an image, with as much padding as keeps its size."""
    x = te.placeholder((1, N, N, channels), "x")
    w = te.placeholder((size, size, channels, filters), "w")
    pads = (size // 2,) * 4
    return te.ComputeDAG([x, w, ops.conv(x, w, (stride,) * 2, pads, layout_free=True)])


def depthwise(channels: int, size: int, stride: int) -> te.ComputeDAG:
    """The same of each channel by itself."""
    x = te.placeholder((1, N, N, channels), "x")
    w = te.placeholder((size, size, 1, channels), "w")
    y = ops.depthwise_conv(x, w, (stride,) * 2, (size // 2,) * 4, (1, 1))
    return te.ComputeDAG([x, w, y])


def pool(channels: int, size: int, stride: int, *, mean: bool = False) -> te.ComputeDAG:
    """The greatest element of windows, or their mean."""
    x = te.placeholder((1, N, N, channels), "x")
    window, strides, pads = (size,) * 2, (stride,) * 2, (size // 2,) * 4
    if mean:
        return te.ComputeDAG([x, ops.avg_pool(x, window, strides, pads)])
    return te.ComputeDAG([x, ops.max_pool(x, window, strides, pads, (1, 1))])


CASES: dict[str, Callable[[], te.ComputeDAG]] = {
    "dense": lambda: dense(768),
    "dense_up": lambda: dense(3072),
    "scores": scores,
    "mixed": mixed,
    "norm": norm,
    "softmax_rows": lambda: softmax(384),
    "softmax": lambda: softmax(S),
    "conv_stride": lambda: convolution(64, 128, 3, 2),
    "conv_few": lambda: convolution(3, 16, 3, 2),
    "stem": lambda: convolution(3, 32, 7, 2),
    "depthwise3": lambda: depthwise(96, 3, 1),
    "depthwise3_stride": lambda: depthwise(96, 3, 2),
    "depthwise5": lambda: depthwise(96, 5, 1),
    "max3_stride": lambda: pool(32, 3, 2),
    "max5": lambda: pool(64, 5, 1),
    "mean3": lambda: pool(64, 3, 1, mean=True),
}


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--points", default="1,7,16,31,64,100,128,384,512")
    parser.add_argument("--mcpu", default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each point")
    parser.add_argument("--drafted", action="store_true")
    args = parser.parse_args()
    points = [int(n) for n in args.points.split(",")]
    cpu = "" if args.mcpu == "native" else f" -mcpu={args.mcpu}"
    target = Target(f"llvm{cpu} -num-cores={args.threads}")
    head = " | ".join(map(str, points))
    print(f"| {target} | row | {head} | from 64: geomean, worst | built, bytes |", flush=True)
    for name in args.cases.split(","):
        task = SearchTask(CASES[name](), target)
        print(_line(name, task, points, args), flush=True)


def _line(name: str, task: SearchTask, points: Sequence[int], args: argparse.Namespace) -> str:
    (length,) = task.compute_dag.symbols
    choice = draft_schedule(task)
    began = time.perf_counter()
    kernel = _open(task, choice)
    took = time.perf_counter() - began
    told, large = [], []
    for n in points:
        if n > length.high:
            continue
        at, row = {length: n}, None if args.drafted else choice.row
        alone, same = _static(task, choice.sketch_id, row, at)
        ratio, best, more = _compared(alone, kernel, at, args.threads, args.seconds)
        over = ratio > (1.15 if n >= 64 else 1.3) and more > 3e-7
        marks = f"{'' if same else '*'}{'!' if over else ''}"
        told.append(f"{ratio:.2f}{marks} ({best * 1e6:.1f} {more * 1e6:+.1f} us)")
        if n >= 64:
            large.append(ratio)
    mean = math.exp(statistics.fmean(map(math.log, large))) if large else math.nan
    size = sum(len(code) for _, code in kernel.objects)
    row = " ".join(map(str, choice.row))
    sums = f"{mean:.2f}, {max(large, default=math.nan):.2f}"
    return f"| {name} | {row} | {' | '.join(told)} | {sums} | {1e3 * took:.0f} ms, {size} |"


def _open(task: SearchTask, choice: Choice) -> Kernel:
    """The kernel of all lengths, which is of two rows where these are chosen."""
    kernel, small = build(task, choice.sketch_id, choice.row), choice.small
    if small is None:
        return kernel
    few = build(task, small.sketch_id, small.row)
    return BUILDER.handed_over(few, kernel, small.extent, small.most, task.target)


def _static(
    task: SearchTask, sketch_id: int, row: Sequence[int] | None, at: dict[Symbol, int]
) -> tuple[Kernel, bool]:
    """The kernel of one length, and whether it is of the same row, if there is one."""
    alone = SearchTask(at_point(task.compute_dag, at), task.target)
    if row is None:
        choice = draft_schedule(alone)
        return build(alone, choice.sketch_id, choice.row), False
    whole = list(row)  # of a symbolic sum: one piece, which every length divides
    for decision in SearchSpace.of(task).sketch(sketch_id).decisions:
        axis = getattr(decision, "axis", None)
        if axis is not None and axis.kind == "reduce" and not isinstance(axis.extent, int):
            for column in decision.columns:
                whole[column] = value_at(axis.extent, at)
    for one in (row, whole):
        try:
            return build(alone, sketch_id, one), True
        except ScheduleError:
            continue
    return _static(task, sketch_id, None, at)


def _compared(
    alone: Kernel, kernel: Kernel, at: dict[Symbol, int], threads: int, seconds: float
) -> tuple[float, float, float]:
    """How many times as long the kernel of all lengths takes, and the seconds of the other one.

    And how many more seconds it takes.

    Raises:
        AssertionError: their results differ.
    """
    (n,), rng = at.values(), np.random.default_rng(0)
    arrays: list[np.ndarray[Any, Any]] = []
    calls: list[BoundKernel] = []
    results: list[np.ndarray[Any, Any]] = []
    given = [rng.standard_normal(_plain(a, at)).astype("float32") for a in kernel.args]
    for one in (alone, kernel):
        own = []
        for i, arg in enumerate(one.args):
            shape = shape_at(arg.shape, at)
            alike = i < len(arrays) and arrays[i].shape == shape and arg.packing == (
                alone.args[i].packing
            )  # fmt: skip
            array = arrays[i] if alike else aligned_empty(shape, arg.dtype)
            if arg.role == "symbol":
                array[...] = n
            elif not alike:
                array[...] = arg.packing.apply(given[i]) if arg.packing else given[i]
            own.append(array)
        arrays = arrays or own
        size = value_at(one.workspace_bytes(threads), at)
        work = aligned_empty((max(size, 64),), "uint8")
        calls.append(load_kernel(one).bind(own, work, threads))
        out = next(i for i, arg in enumerate(one.args) if arg.role == "output")
        own[out][...] = np.nan
        calls[-1]()
        results.append(own[out].copy())
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-3)
    return _in_turns(calls[0], calls[1], seconds)


def _plain(arg: Any, at: dict[Symbol, int]) -> tuple[int, ...]:
    return shape_at(arg.packing.shape if arg.packing else arg.shape, at)


def _in_turns(
    first: Callable[[], object], second: Callable[[], object], seconds: float
) -> tuple[float, float, float]:
    """The medians of the second's time over the first's, of the first's, and of the difference."""

    def timed(call: Callable[[], object], count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - began) / count

    for call in (first, second):
        timed(call, 3)
    count = max(int(3e-4 / max(timed(first, 3), 1e-7)), 1)
    pairs = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 15:
        pairs.append((timed(first, count), timed(second, count)))
    median = statistics.median
    return (
        median(b / a for a, b in pairs),
        median(a for a, _ in pairs),
        median(b - a for a, b in pairs),
    )


if __name__ == "__main__":
    main()
