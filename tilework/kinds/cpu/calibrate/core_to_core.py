"""How long a cache line takes from one core to another, measured with generated code.

Threads that compute together meet at a barrier after every kernel, and a barrier is a few cache
lines that change hands. In a virtual machine the figure moves with the place that the hypervisor
gives its cores: a tenfold rise makes a network on two threads half as slow again, whatever engine
runs it. So it belongs beside every figure of several threads.
"""

from __future__ import annotations

import ctypes
import os
from threading import Thread

from tilework.kinds.cpu.calibrate.code import function, loaded, zeros
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.samples import time_calls

_ROUNDS = 1000


def core_to_core_ns(repeats: int = 20) -> float | None:
    """Nanoseconds for a cache line to go from one core to another, one way; the least measured.

    Two threads, each held to a core of its own while this lasts, hand a counter to and fro. None
    where the process may use a single core only, or threads cannot be held to cores.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        return None
    code = loaded(_PING_PONG, CpuTarget())
    serve, answer = (
        function(code, name, None, ctypes.c_void_p, ctypes.c_int64) for name in ("serve", "answer")
    )
    line = zeros(128)
    at = line.ctypes.data
    times: list[float] = []

    def first() -> None:
        os.sched_setaffinity(0, {cores[0]})  # of this thread alone
        for _ in range(repeats):
            times.append(time_calls(lambda: serve(at, _ROUNDS), 1))

    def second() -> None:
        os.sched_setaffinity(0, {cores[1]})
        answer(at, _ROUNDS * repeats)

    threads = [Thread(target=second), Thread(target=first)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return min(times) / _ROUNDS / 2 * 1e9


# serve: makes an even counter odd and waits until it is even again; answer: the other side.
_SIDE = """\
define void @{name}(ptr %line, i64 %rounds) {{
entry:
  br label %round
round:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  br label %{first}
wait:
  %seen = load atomic i64, ptr %line acquire, align 8
  %bit = and i64 %seen, 1
  %mine = icmp eq i64 %bit, {parity}
  br i1 %mine, label %{after}, label %wait
write:
  %old = load atomic i64, ptr %line monotonic, align 8
  %new = add i64 %old, 1
  store atomic i64 %new, ptr %line release, align 8
  br label %{last}
done:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %round, label %exit
exit:
  ret void
}}
"""

_PING_PONG = _SIDE.format(
    name="serve", first="write", parity=0, after="done", last="wait"
) + _SIDE.format(name="answer", first="wait", parity=1, after="write", last="done")
