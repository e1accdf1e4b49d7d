"""The generated functions that call all kernels of a network in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tilework.kinds.cpu.calls import PROFILE_SYMBOL, RUN_SYMBOL, SITE_WORDS
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.pool import ENTER, LEAVE, RUN_WORDS
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.image import Step
from tilework.runtime.repeats import Repeat


def driver_object(
    steps: Sequence[Step], target: CpuTarget, repeats: Sequence[Repeat] = ()
) -> bytes:
    """Object code of the run function and the profiled run function (`tilework.kinds.cpu.calls`).

    For several cores, a run tells the runtime of threads that it begins and that it ends, and what
    is known of such runs: of all that there are, or of those of these shapes, where they differ.
    Nothing unwinds through them, as through no kernel: objects have no tables for it.
    """
    several = target.num_cores > 1
    symbolic = any(ref.space in ("place", "symbol") for s in steps for ref in s.args)
    numbers = sum(len(r.numbers) for r in repeats)
    at = sum(len(s.args) for s in steps)
    text = (_COUNTED if several else _MODULE).format(
        declarations="\n".join(
            f"declare void @{s}(ptr, ptr, i32)" for s in sorted({s.symbol for s in steps})
        ),
        enter=ENTER,
        leave=LEAVE,
        found=_FOUND.format(at=at + numbers) if symbolic else "",
        site="%site" if symbolic else "@site",
        words=SITE_WORDS,
        record=RUN_WORDS,
        run=RUN_SYMBOL,
        run_body=_Body(steps, repeats, several).text(profiled=False),
        profile=PROFILE_SYMBOL,
        profile_body=_Body(steps, repeats, several).text(profiled=True),
    )
    text += _TIMES if repeats else ""
    return emit_object(text, target, calls_only=True)


class _Body:
    """The calls of a network as LLVM IR.

    Those that are repeated find their arguments in a table of their own, which moves on behind
    each trip. Of such a call the profiled function counts the time of all trips: its stamp is the
    one before, and that more.
    """

    def __init__(self, steps: Sequence[Step], repeats: Sequence[Repeat], several: bool) -> None:
        self._steps = steps
        self._threads = "team" if several else "threads"
        self._at = list(accumulate((len(s.args) for s in steps), initial=0))
        self._repeats = {r.first: r for r in repeats}
        behind = accumulate((len(r.numbers) for r in repeats), initial=self._at[-1])
        self._numbers = dict(zip(self._repeats, behind, strict=False))

    def text(self, profiled: bool) -> str:
        """The calls one after another, with the times between them or without."""
        lines = [f"  {_own(r)} = alloca [{len(r.advances)} x ptr]" for r in self._repeats.values()]
        lines += ["  %then = alloca [2 x i64]"] * bool(profiled and self._repeats)
        lines += [_stamp(0)] * profiled
        i, block = 0, "entry"
        while i < len(self._steps):
            repeat = self._repeats.get(i)
            if repeat is None:
                lines += [self._call(i, "%table", self._at[i]), *([_stamp(i + 1)] * profiled)]
                i += 1
            else:
                lines += self._repeated(repeat, block, profiled)
                i += repeat.count
                block = f"done{repeat.first}"
        return "\n".join(lines)

    def _call(self, i: int, table: str, at: int) -> str:
        return (
            f"  %a{i} = getelementptr ptr, ptr {table}, i64 {at}\n"
            f"  call void @{self._steps[i].symbol}(ptr %a{i}, ptr %ws, i32 %{self._threads})"
        )

    def _repeated(self, repeat: Repeat, block: str, profiled: bool) -> list[str]:
        """A loop of as many trips as the table says, behind a block."""
        n, own, numbers = repeat.first, _own(repeat), self._numbers[repeat.first]
        steps = range(n, n + repeat.count)
        moving = [k for k, each in enumerate(repeat.advances) if each != 0]
        lines = []
        for k in range(len(repeat.advances)):  # one by one: LLVM calls memcpy for many
            lines += [
                f"  %f{n}.{k} = getelementptr ptr, ptr %table, i64 {self._at[n] + k}",
                f"  %first{n}.{k} = load ptr, ptr %f{n}.{k}",
                f"  %t{n}.{k} = getelementptr ptr, ptr {own}, i64 {k}",
                f"  store ptr %first{n}.{k}, ptr %t{n}.{k}",
            ]
        lines += [
            _number(f"trips{n}", numbers),
            *(_number(f"by{n}.{k}", numbers + 1 + k) for k in moving),
            *([_place(i + 1) for i in steps] * profiled),
            *([f"  call void @since(ptr %then, ptr %s{n})"] * profiled),
            f"  br label %head{n}",
            f"head{n}:",
            f"  %left{n} = phi i64 [ %trips{n}, %{block} ], [ %less{n}, %trip{n} ]",
            f"  %over{n} = icmp eq i64 %left{n}, 0",
            f"  br i1 %over{n}, label %done{n}, label %trip{n}",
            f"trip{n}:",
        ]
        for i in steps:
            lines.append(self._call(i, own, self._at[i] - self._at[n]))
            lines += [f"  call void @count(ptr %s{i + 1}, ptr %then, i32 %clock)"] * profiled
        for k in moving:
            lines += [
                f"  %old{n}.{k} = load ptr, ptr %t{n}.{k}",
                f"  %new{n}.{k} = getelementptr i8, ptr %old{n}.{k}, i64 %by{n}.{k}",
                f"  store ptr %new{n}.{k}, ptr %t{n}.{k}",
            ]
        lines += [f"  %less{n} = sub i64 %left{n}, 1", f"  br label %head{n}", f"done{n}:"]
        lines += [f"  call void @behind(ptr %s{i + 1}, ptr %s{i})" for i in steps] * profiled
        return lines


def _own(repeat: Repeat) -> str:
    """The table of a repeat."""
    return f"%own{repeat.first}"


def _number(name: str, at: int) -> str:
    return f"  %{name}.at = getelementptr i64, ptr %table, i64 {at}\n" + (
        f"  %{name} = load i64, ptr %{name}.at"
    )


def _place(i: int) -> str:
    return f"  %s{i} = getelementptr [2 x i64], ptr %stamps, i64 {i}"


def _stamp(i: int) -> str:
    return f"{_place(i)}\n  call i32 @clock_gettime(i32 %clock, ptr %s{i})"


_TIMES = """\
define internal void @since(ptr %then, ptr %stamp) nounwind {
  %a = load <2 x i64>, ptr %stamp, align 8
  store <2 x i64> %a, ptr %then, align 8
  ret void
}
define internal void @behind(ptr %stamp, ptr %more) nounwind {
  %a = load <2 x i64>, ptr %stamp, align 8
  %b = load <2 x i64>, ptr %more, align 8
  %c = add <2 x i64> %a, %b
  store <2 x i64> %c, ptr %stamp, align 8
  ret void
}
define internal void @count(ptr %stamp, ptr %then, i32 %clock) nounwind {
  %now = alloca <2 x i64>, align 16
  call i32 @clock_gettime(i32 %clock, ptr %now)
  %a = load <2 x i64>, ptr %stamp, align 8
  %b = load <2 x i64>, ptr %then, align 8
  %c = load <2 x i64>, ptr %now, align 16
  %d = sub <2 x i64> %c, %b
  %e = add <2 x i64> %a, %d
  store <2 x i64> %e, ptr %stamp, align 8
  store <2 x i64> %c, ptr %then, align 8
  ret void
}
"""
"""What the profiled function calls where calls are repeated: stamps that are sums of times."""
_MODULE = """\
declare i32 @clock_gettime(i32, ptr)
{declarations}
define void @{run}(ptr %table, ptr %ws, i32 %threads) nounwind {{
entry:
{run_body}
  ret void
}}
define void @{profile}(ptr %table, ptr %ws, i32 %threads, i32 %clock, ptr %stamps) nounwind {{
entry:
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
entry:
  %run = alloca [{record} x i64], align 8
{found}  %team = call i32 @{enter}(ptr {site}, ptr %run, i32 %threads)
{run_body}
  call void @{leave}(ptr {site}, ptr %run)
  ret void
}}
define void @{profile}(ptr %table, ptr %ws, i32 %threads, i32 %clock, ptr %stamps) nounwind {{
entry:
  %run = alloca [{record} x i64], align 8
  %team = call i32 @{enter}(ptr null, ptr %run, i32 %threads)
{profile_body}
  call void @{leave}(ptr null, ptr %run)
  ret void
}}
"""
