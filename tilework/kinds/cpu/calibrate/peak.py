"""The multiply-add peak, measured: what any kernel of ours can reach at most."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tilework.kinds.cpu.calibrate.code import function, loaded
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.samples import time_calls

_ACCUMULATORS = 12
_ITERATIONS = 20_000


def fma_peak_gflops(target: CpuTarget | None = None, repeats: int = 30, threads: int = 1) -> float:
    """GFLOP/s of float32 multiply-adds in registers, the best of ``repeats`` samples.

    Independent accumulators hide the latency, and nothing touches memory. Each sample takes a
    tenth of a millisecond or so, so that some fall between interruptions. Several threads begin
    their samples together, and the last to end counts.
    """
    where = target or CpuTarget()
    lanes = where.lanes()
    code = loaded(_fma_loop(lanes), where)
    call = function(code, "fma_loop", ctypes.c_float, ctypes.c_int64)
    count = _ITERATIONS if threads == 1 else 20 * _ITERATIONS  # starting together takes a while
    flops = 2.0 * lanes * _ACCUMULATORS * count * threads
    together = Barrier(threads)

    def samples(_: int) -> list[float]:
        call(_ITERATIONS)
        out = []
        for _ in range(repeats):
            together.wait()
            out.append(time_calls(lambda: call(count), 1))
        return out

    with ThreadPoolExecutor(threads) as pool:
        turns: list[tuple[float, ...]] = list(zip(*pool.map(samples, range(threads)), strict=True))
    return flops / min(map(max, turns)) * 1e-9


def _fma_loop(lanes: int) -> str:
    """LLVM IR of ``float fma_loop(int64 n)``: n times one multiply-add of each accumulator."""
    kind = f"<{lanes} x float>"
    splat = f"{kind} <{', '.join(['float 0x3FEFFFFFE0000000'] * lanes)}>"
    several = range(_ACCUMULATORS)
    start = [
        f"  %a{i} = phi {kind} [ zeroinitializer, %entry ], [ %n{i}, %loop ]" for i in several
    ]
    step = [
        f"  %n{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %a{i}, {splat}, {splat})"
        for i in several
    ]
    total = [f"  %s0 = fadd {kind} %n0, %n1"]
    total += [f"  %s{i - 1} = fadd {kind} %s{i - 2}, %n{i}" for i in range(2, _ACCUMULATORS)]
    return "\n".join(
        [
            f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
            "define float @fma_loop(i64 %count) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *start,
            *step,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %count",
            "  br i1 %more, label %loop, label %exit",
            "exit:",
            *total,
            f"  %one = extractelement {kind} %s{_ACCUMULATORS - 2}, i32 0",
            "  ret float %one",
            "}",
            "",
        ]
    )
