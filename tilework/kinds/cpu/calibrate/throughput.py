"""Throughputs of a core in cycles, which the draft model needs: measured in a few seconds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from datetime import UTC, datetime

from tilework.kinds.cpu.calibrate.bandwidth import read_bandwidth
from tilework.kinds.cpu.calibrate.code import function, loaded, zeros
from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.kinds.cpu.llvm.pool import PARALLEL
from tilework.kinds.cpu.parameters import Parameters, Shared
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.team import load_team
from tilework.runtime.samples import time_calls

_TURNS = 20_000
_CHAIN = 16
_LOADS = 12
_REPEATS = 15


def measure_parameters(target: CpuTarget) -> Parameters:
    """The parameters of this machine for a target's code; nothing else should run meanwhile.

    Each number is the best of several samples. The clock comes from a chain of dependent
    additions, one of which takes a cycle on every CPU supported.
    """
    code = _Code(target)
    add = code.seconds("add_chain") / (_TURNS * _CHAIN)
    clock = 1.0 / add
    lanes = target.lanes()
    bandwidth = read_bandwidth(target, 1)
    counts = sorted({1, target.num_cores})
    threads = {}
    for count in counts:
        read = bandwidth if count == 1 else read_bandwidth(target, count)
        threads[count] = Shared(
            l3_rate=read.l3 * 1e9 / count / clock,
            memory_rate=read.dram * 1e9 / count / clock,
            fork_cycles=max(_fork_seconds(code, count) * clock, 1.0),
        )
    return Parameters(
        clock_hz=clock,
        fma_ports=fma_peak_gflops(target) * 1e9 / (2 * lanes * clock),
        load_ports=_TURNS * _LOADS / (code.seconds("vector_loads") * clock),
        broadcast_ports=_TURNS * _LOADS / (code.seconds("broadcasts") * clock),
        latency=code.seconds("fma_chain") * clock / (_TURNS * _CHAIN),
        l2_rate=bandwidth.l2 * 1e9 / clock,
        threads=threads,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class _Code:
    """The generated loops, loaded."""

    def __init__(self, target: CpuTarget) -> None:
        lanes = target.lanes()
        self._code = loaded(_loops(lanes), target)
        self._data = zeros(_LOADS * lanes * 4)

    def seconds(self, name: str) -> float:
        """Least time of one call of a loop of `_TURNS` turns."""
        call = function(self._code, name, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        return _least(lambda: call(self._data.ctypes.data, _TURNS))

    def nothing(self) -> int:
        """Address of a function that returns at once."""
        return self._code.address("nothing")


def _fork_seconds(code: _Code, threads: int) -> float:
    """Least time of an empty parallel region."""
    if threads == 1:
        return 1e-9
    parameters = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    parallel = ctypes.CFUNCTYPE(None, *parameters)(load_team()[PARALLEL])

    def regions() -> None:
        for _ in range(100):
            parallel(code.nothing(), None, threads, threads)

    return _least(regions) / 100


def _least(call: Callable[[], object]) -> float:
    call()
    return min(time_calls(call, 1) for _ in range(_REPEATS))


def _loops(lanes: int) -> str:
    """LLVM IR of the loops. Their results are returned, so that none of them can be left out."""
    kind, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    adds: list[str] = []
    for i in range(0, _CHAIN, 2):  # two kinds of operations: a chain of one kind could be merged
        adds += [f"  %x{i + 1} = add i64 %x{i}, %step", f"  %x{i + 2} = xor i64 %x{i + 1}, %step"]
    fmas = [
        f"  %x{i + 1} = call {kind} @llvm.fma.v{lanes}f32({kind} %x{i}, {kind} %c, {kind} %c)"
        for i in range(_CHAIN)
    ]
    vectors, broadcasts = [], []
    for i in range(_LOADS):
        vectors += [
            f"  %p{i} = getelementptr i8, ptr %data, i64 {4 * lanes * i}",
            f"  %v{i} = load volatile {ints}, ptr %p{i}, align {4 * lanes}",
            f"  %n{i} = xor {ints} %a{i}, %v{i}",
        ]
        broadcasts += [
            f"  %p{i} = getelementptr i8, ptr %data, i64 {4 * i}",
            f"  %s{i} = load volatile i32, ptr %p{i}, align 4",
            f"  %w{i} = insertelement {ints} poison, i32 %s{i}, i32 0",
            f"  %v{i} = shufflevector {ints} %w{i}, {ints} poison, {ints} zeroinitializer",
            f"  %n{i} = xor {ints} %a{i}, %v{i}",
        ]
    sums = [f"  %a{i} = phi {ints} [ zeroinitializer, %entry ], [ %n{i}, %loop ]"
            for i in range(_LOADS)]  # fmt: skip
    total = [f"  %t1 = xor {ints} %n0, %n1"]
    total += [f"  %t{i} = xor {ints} %t{i - 1}, %n{i}" for i in range(2, _LOADS)]
    total += [f"  %e = extractelement {ints} %t{_LOADS - 1}, i32 0", "  %out = zext i32 %e to i64"]
    chain = f"[ %x{_CHAIN}, %loop ]"
    last = [f"  %e = extractelement {kind} %x{_CHAIN}, i32 0", "  %out = fptosi float %e to i64"]
    return "\n".join(
        [
            f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
            "define void @nothing(ptr %data) {",
            "  ret void",
            "}",
            *_function(
                "add_chain",
                ["  %step = or i64 %turns, 1"],
                [f"  %x0 = phi i64 [ 0, %entry ], {chain}"],
                adds,
                [f"  %out = add i64 %x{_CHAIN}, 0"],
            ),
            *_function(
                "fma_chain",
                [f"  %c = load {kind}, ptr %data, align 4"],
                [f"  %x0 = phi {kind} [ zeroinitializer, %entry ], {chain}"],
                fmas,
                last,
            ),
            *_function("vector_loads", [], sums, vectors, total),
            *_function("broadcasts", [], sums, broadcasts, total),
        ]
    )


def _function(
    name: str, head: list[str], phis: list[str], body: list[str], tail: list[str]
) -> list[str]:
    """``int64 name(ptr data, int64 turns)``: the body, so many times; ``tail`` makes ``%out``."""
    return [
        f"define i64 @{name}(ptr %data, i64 %turns) {{",
        "entry:",
        *head,
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis,
        *body,
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %turns",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        *tail,
        "  ret i64 %out",
        "}",
        "",
    ]
