"""The generated functions that call all kernels of a network in order."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.kinds.cpu.calls import PROFILE_SYMBOL, RUN_SYMBOL, SITE_WORDS
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.pool import ENTER, LEAVE, RUN_WORDS
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.image import Step


def driver_object(steps: Sequence[Step], target: CpuTarget) -> bytes:
    """Object code of the run function and the profiled run function (`tilework.kinds.cpu.calls`).

    For several cores, a run tells the runtime of threads that it begins and that it ends, and what
    is known of such runs: of all that there are, or of those of these shapes, where they differ.
    Nothing unwinds through them, as through no kernel: objects have no tables for it.
    """
    count = "team" if target.num_cores > 1 else "threads"
    declarations = [f"declare void @{s}(ptr, ptr, i32)" for s in sorted({s.symbol for s in steps})]
    run: list[str] = []
    profiled: list[str] = [_stamp(0)]
    at = 0
    for i, step in enumerate(steps):
        call = (
            f"  %a{i} = getelementptr ptr, ptr %table, i64 {at}\n"
            f"  call void @{step.symbol}(ptr %a{i}, ptr %ws, i32 %{count})"
        )
        at += len(step.args)
        run.append(call)
        profiled += [call, _stamp(i + 1)]
    several = target.num_cores > 1
    symbolic = any(ref.space in ("place", "symbol") for s in steps for ref in s.args)
    text = (_COUNTED if several else _MODULE).format(
        declarations="\n".join(declarations),
        enter=ENTER,
        leave=LEAVE,
        found=_FOUND.format(at=at) if symbolic else "",
        site="%site" if symbolic else "@site",
        words=SITE_WORDS,
        record=RUN_WORDS,
        run=RUN_SYMBOL,
        run_body="\n".join(run),
        profile=PROFILE_SYMBOL,
        profile_body="\n".join(profiled),
    )
    return emit_object(text, target, calls_only=True)


def _stamp(i: int) -> str:
    return (
        f"  %s{i} = getelementptr [2 x i64], ptr %stamps, i64 {i}\n"
        f"  call i32 @clock_gettime(i32 %clock, ptr %s{i})"
    )


_MODULE = """\
declare i32 @clock_gettime(i32, ptr)
{declarations}
define void @{run}(ptr %table, ptr %ws, i32 %threads) nounwind {{
{run_body}
  ret void
}}
define void @{profile}(ptr %table, ptr %ws, i32 %threads, i32 %clock, ptr %stamps) nounwind {{
{profile_body}
  ret void
}}
"""
_FOUND = """\
  %last = getelementptr ptr, ptr %table, i64 {at}
  %site = load ptr, ptr %last
"""
_COUNTED = """\
declare i32 @clock_gettime(i32, ptr)
declare i32 @{enter}(ptr, ptr, i32)
declare void @{leave}(ptr, ptr)
{declarations}
@site = internal global [{words} x i64] zeroinitializer, align 64
define void @{run}(ptr %table, ptr %ws, i32 %threads) nounwind {{
  %run = alloca [{record} x i64], align 8
{found}  %team = call i32 @{enter}(ptr {site}, ptr %run, i32 %threads)
{run_body}
  call void @{leave}(ptr {site}, ptr %run)
  ret void
}}
define void @{profile}(ptr %table, ptr %ws, i32 %threads, i32 %clock, ptr %stamps) nounwind {{
  %run = alloca [{record} x i64], align 8
  %team = call i32 @{enter}(ptr null, ptr %run, i32 %threads)
{profile_body}
  call void @{leave}(ptr null, ptr %run)
  ret void
}}
"""
