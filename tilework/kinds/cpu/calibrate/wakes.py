"""Whether helpers that sleep come to cores of their own when they are wanted."""

from __future__ import annotations

import ctypes
import time

from tilework.kinds.cpu.calibrate.code import loaded
from tilework.kinds.cpu.llvm.pool import PARALLEL
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.team import counts_during, load_team

_REGIONS, _PAUSE_S = 20, 0.01
_EXTENT = 256


def wake_helpers(target: CpuTarget) -> str:
    """What became of some regions of half a millisecond with pauses, in words."""
    code = loaded(_REGION, target)
    parameters = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    parallel = ctypes.CFUNCTYPE(None, *parameters)(load_team()[PARALLEL])

    def regions() -> None:
        for _ in range(_REGIONS):
            time.sleep(_PAUSE_S)
            parallel(code.address("region"), None, _EXTENT, target.num_cores)

    return str(counts_during(regions))


_REGION = """\
define void @region(ptr %bases, i64 %start, i64 %stop, i64 %thread) nounwind {
entry:
  %n = sub i64 %stop, %start
  %turns = mul i64 %n, 5000
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""
