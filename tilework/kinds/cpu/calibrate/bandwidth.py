"""How fast this machine reads each level of its memory, measured with generated code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

from tilework.frozen import frozen
from tilework.kinds.cpu.calibrate.code import function, loaded, zeros
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.samples import time_calls

_STREAMS = 8
_SAMPLE_BYTES = 384 << 20


LEVELS = ("l1", "l2", "l3", "dram")


def level_of(nbytes: float, target: CpuTarget, threads: int = 1) -> str:
    """The nearest of `LEVELS` that holds so many bytes."""
    sizes = (target.l1_bytes * threads, target.l2_bytes * threads, target.l3_bytes)
    return next((k for k, size in zip(LEVELS, sizes, strict=False) if nbytes <= size), "dram")


@frozen
class Bandwidth:
    """Bytes read per second, all threads together, in 1e9, by where the data lies."""

    l1: float
    l2: float
    l3: float
    dram: float

    def of(self, nbytes: float, target: CpuTarget, threads: int = 1) -> float:
        """The bandwidth at which a working set of so many bytes is read again and again, GB/s."""
        return float(getattr(self, level_of(nbytes, target, threads)))


def read_bandwidth(target: CpuTarget, threads: int) -> Bandwidth:
    """Read bandwidth of each level; see `read_level`."""
    return Bandwidth(*(read_level(level, target, threads) for level in LEVELS))


def read_level(level: str, target: CpuTarget, threads: int = 1, repeats: int = 7) -> float:
    """Read bandwidth of one level in GB/s, the best of ``repeats`` samples.

    A block takes half of the thread's share of the level; those for DRAM are together four times
    as large as the last level. See `read_block`.
    """
    size = {
        "l1": target.l1_bytes // 2,
        "l2": target.l2_bytes // 2,
        "l3": max(target.l3_bytes // 2 // threads, 2 * target.l2_bytes),
        "dram": max(4 * target.l3_bytes, 64 << 20) // threads,
    }[level]
    return read_block(size, target, threads, repeats)


def read_block(size: int, target: CpuTarget, threads: int = 1, repeats: int = 7) -> float:
    """Read bandwidth of a block of so many bytes for each thread in GB/s, the best of ``repeats``.

    Every thread reads its own block from end to end, again and again, in whole vectors into
    independent sums. Where a block is more than `_SAMPLE_BYTES`, a sample lasts longer, and three
    or more will do.
    """
    lanes = target.lanes()
    text, step = read_loop(lanes)
    call = function(
        loaded(text, target), "read_loop",
        ctypes.c_float, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
    )  # fmt: skip
    turns, number = size // step, max(1, _SAMPLE_BYTES // size)
    blocks = [zeros(size) for _ in range(threads)]
    calls = [partial(call, b.ctypes.data, turns, number) for b in blocks]
    enough = max(3, repeats * _SAMPLE_BYTES // (number * size))
    seconds = _best_together(calls, min(repeats, enough))
    return threads * number * turns * step / seconds * 1e-9


def _best_together(calls: Sequence[Callable[[], object]], repeats: int) -> float:
    """Least time over ``repeats`` in which every thread makes its call."""
    together = Barrier(len(calls))

    def samples(call: Callable[[], object]) -> list[float]:
        call()
        out = []
        for _ in range(repeats):
            together.wait()
            out.append(time_calls(call, 1))
        return out

    with ThreadPoolExecutor(len(calls)) as pool:
        turns: list[tuple[float, ...]] = list(zip(*pool.map(samples, calls), strict=True))
    return min(map(max, turns))


def read_loop(lanes: int) -> tuple[str, int]:
    """LLVM IR of a function that reads memory, and the bytes of a group.

    ``float read_loop(const float *p, int64 n, int64 rounds)`` adds up ``n`` groups of vectors,
    from first to last, ``rounds`` times.
    """
    kind = f"<{lanes} x float>"
    several = range(_STREAMS)
    lines = [
        "define float @read_loop(ptr %p, i64 %count, i64 %rounds) {",
        "entry:",
        "  br label %round",
        "round:",
        "  %r = phi i64 [ 0, %entry ], [ %again, %end ]",
        *(f"  %b{k} = phi {kind} [ zeroinitializer, %entry ], [ %n{k}, %end ]" for k in several),
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %round ], [ %next, %loop ]",
        *(f"  %a{k} = phi {kind} [ %b{k}, %round ], [ %n{k}, %loop ]" for k in several),
        f"  %at = mul i64 %i, {4 * lanes * _STREAMS}",
        "  %q = getelementptr i8, ptr %p, i64 %at",
    ]
    for k in several:
        lines += [
            f"  %q{k} = getelementptr i8, ptr %q, i64 {4 * lanes * k}",
            f"  %v{k} = load {kind}, ptr %q{k}, align {4 * lanes}",
            f"  %n{k} = fadd {kind} %a{k}, %v{k}",
        ]
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %count",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  %again = add i64 %r, 1",
        "  %on = icmp slt i64 %again, %rounds",
        "  br i1 %on, label %round, label %exit",
        "exit:",
        f"  %s0 = fadd {kind} %n0, %n1",
        *(f"  %s{k - 1} = fadd {kind} %s{k - 2}, %n{k}" for k in range(2, _STREAMS)),
        f"  %one = extractelement {kind} %s{_STREAMS - 2}, i32 0",
        "  ret float %one",
        "}",
        "",
    ]
    return "\n".join(lines), 4 * lanes * _STREAMS
