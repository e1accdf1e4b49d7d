"""The runtime that parallel regions call, as LLVM IR: a process's threads and how they share work.

    void tw_parallel(region, void **bases, int64_t extent, int32_t threads)
    int32_t tw_enter(site, run, int32_t threads)   before a network's calls: threads to use
    void tw_leave(site, run)                       after them
    void tw_judge(site, int64_t state, int64_t spent, int64_t time)   what the latter goes by
    void tw_pool_counts(int64_t *counts)           `COUNTERS` since the first region
    void tw_pool_stop(void)                        ends the threads; no run may be under way

``tw_parallel`` runs ``region(bases, start, stop, thread)`` for pieces that make up ``0..extent``,
on the caller and on at most ``threads - 1`` helpers, and returns when all are done. Each of these
threads has a number below ``threads`` of its own.

**Shares** (``job.ll``). The iterations are cut into a few chunks for each thread, and each thread
has a share of neighbouring chunks. It takes them from the front of its share, one after another;
when that is empty, it takes what is left at the back of others'. So on idle cores everybody
computes what a static division would give it, and a thread that does not come leaves nothing
behind.

**Helpers** (``helper.ll``) are made when they are first wanted, and belong to nobody: a region
hires those that are free, hands them its job and takes it back from whom it finds not to have
begun. The caller waits for chunks under way only. Helpers spin for some time after a job, then
sleep; those that sleep are woken as a run begins that is known to gain by them.

**Where they run.** Linux may wake a helper on its caller's core, which is busy. Such a helper
takes that core out of its own affinity mask: it sets the mask to the one that its caller has now,
less this core, and works elsewhere. The mask stays, so that the next time it wakes up there, and
is made anew when the helper is in its caller's way again or, at a job, a second has passed: cores
that the process was given or lost in the meantime count. A helper for whom no other core is left
leaves the work to its caller. A caller that waits spins, and looks at the helper's CPU time. One
that has had less than a quarter of the time was put aside by the system in mid-chunk, for
milliseconds; the caller, which has nothing else to do, lends it its own core and sleeps until the
chunk is done. (It could not compute the chunk itself: the helper would write its results later,
when the memory holds something else.)

**Budget.** There are as many threads at work as the process may use cores: those of its affinity
mask, or ``TILEWORK_CORES``. Runs under way count one each, then helpers. A run takes what is
free.

**Threads that do not pay** (``judge.ll``). ``tw_enter`` and ``tw_leave`` time a network's runs on
the wanted threads and, now and then, on the caller alone, and use what is faster: some networks
are too small to be shared, and beside a busy program two threads can be slower than one. A
network runs alone only after that has won twice in a row. The other way is tried again by the
clock, first after a quarter of a second, then twice as late each time that the choice is
confirmed, up to a second. From the team trials take half a percent of the runs' time at most,
alone three percent of all time. Runs that become a quarter slower than when the choice was made
are a reason to try at once. A trial is over as soon as it is clear. `SITE_WORDS` 64-bit numbers
of each network hold what was seen; ``run`` is `RUN_WORDS` on the caller's stack. Runs beside
other runs of the process are not judged.

Who computes an element does not change its bits.

**Forks.** The state lies in memory that the system clears in a forked child (where it cannot, the
process's number tells), which therefore begins with no helper, no run and nothing hired.

The states of a helper: idle, hired (a caller owns it), assigned (its job is there to be taken),
working, awaited (working, and its caller sleeps until it is done), done, over. From assigned,
either the helper goes to working or the caller back to idle, by one exchange.
"""

from __future__ import annotations

import re
from pathlib import Path

from tilework.errors import TargetError
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.target import CpuTarget

PARALLEL, ENTER, LEAVE, JUDGE = "tw_parallel", "tw_enter", "tw_leave", "tw_judge"
COUNTS, STOP = "tw_pool_counts", "tw_pool_stop"
SYMBOLS = (PARALLEL, ENTER, LEAVE, JUDGE, COUNTS, STOP)
"""What the object defines."""

COUNTERS = ("shared", "woken", "moved", "taken_back", "waited", "lent", "waited_ns")
"""What is counted; `tilework.kinds.cpu.team.Counts` says what that means."""

MOST_HELPERS = 128
_CHUNKS = 8
"""Chunks of each thread: so much is at most left to wait for, of a region's time on one thread."""
_AWAKE_NS = 100_000
"""A helper spins so long after its last job: the calls between two regions take less, and waking
it takes longer than most of them."""
_WAIT_NS = 100_000
"""A caller spins so long for a chunk under way before it leaves its core to others: being woken
takes tens of microseconds itself."""
_LOOK_NS, _LOOK_ASLEEP_NS = 10_000, 250_000
"""Between two looks at the CPU time of a helper that is waited for: spinning (a look takes under
half a microsecond), and asleep."""
_MASK_NS = 1_000_000_000
"""A helper's own mask is good for so long."""

RUN_WORDS = 2
_SHORT_NS = 20_000
"""Of a chosen way's runs that take less, the judge times every eighth."""
_FIRST, _TRIAL = 5, 3
"""Runs together at the beginning, and of a trial at most; the first one of each is not counted,
unless it is clear already."""
_SOONEST, _MOST = 6, 1024
"""Runs between two trials: at least, and at most wanted."""
_PATIENCE = 200 * _TRIAL
"""On the team, runs between two trials, for a loss of all of its time by each run of a trial."""
_SHORTEST_NS, _LONGEST_NS = 250_000_000, 1_000_000_000
"""Time between two trials: who kept the cores busy may be gone."""
_DEAR = 32 * _TRIAL
"""Alone, the least time between two trials, for each nanosecond that a run of one loses."""

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {
    "x86_64": ("llvm.x86.sse2.pause()", "llvm.x86.sse2.pause()"),
    "aarch64": ("llvm.aarch64.hint(i32)", "llvm.aarch64.hint(i32 1)"),
}


def pool_object(target: CpuTarget) -> bytes:
    """Position-independent object code of the runtime.

    Raises:
        TargetError: for this kind of machine there is none.
    """
    return emit_object(pool_text(target.platform), target)


def plainest_target(platform: str) -> CpuTarget:
    """What the runtime is made for where any machine of a platform may run it."""
    system, arch = platform.split()
    name = "x86-64" if arch == "x86_64" else "generic"
    return CpuTarget(f"llvm -mcpu={name} -mtriple={arch}-{system} -num-cores=1")


def pool_text(platform: str) -> str:
    """LLVM IR of the runtime; on other systems than Linux, regions run on their caller alone.

    Args:
        platform: system and architecture, such as ``linux x86_64``.
    """
    system, arch = platform.split()
    if system != "linux":
        return _ALONE
    if arch not in _FUTEX:
        raise TargetError(f"there is no runtime for threads on {platform}: use -num-cores=1")
    declared, pause = _PAUSE[arch]
    words = {
        "DECLARED": f"declare void @{declared}",
        "PAUSE": f"call void @{pause}",
        "FUTEX": _FUTEX[arch],
        **_NUMBERS,
    }
    return re.sub(r"\$([A-Z_]+)", lambda match: str(words[match[1]]), _source())


_WORKERS, _WORKER = 256, 128
"""Where the helpers begin in the pool, and how far apart they are."""
_NUMBERS = {
    "CHUNKS": _CHUNKS,
    "AWAKE": _AWAKE_NS,
    "WAIT": _WAIT_NS,
    "LOOK": _LOOK_NS,
    "LOOK_ASLEEP": _LOOK_ASLEEP_NS,
    "MASK": _MASK_NS,
    "SHORT": _SHORT_NS,
    "FIRST": _FIRST,
    "TRIAL": _TRIAL,
    "SOONEST": _SOONEST,
    "MOST": _MOST,
    "PATIENCE": _PATIENCE,
    "DEAR": _DEAR,
    "SHORTEST": _SHORTEST_NS,
    "LONGEST": _LONGEST_NS,
    "BYTES": _WORKERS + MOST_HELPERS * _WORKER,
    "WORKERS": _WORKERS,
    "WORKER": _WORKER,
    "JOB": 64 + 64 * (MOST_HELPERS + 1),
    "THREADS": MOST_HELPERS + 1,
    "HELPERS": MOST_HELPERS,
    "COUNTERS": len(COUNTERS),
    **{f"N_{name.upper()}": i for i, name in enumerate(COUNTERS)},
}


def _source() -> str:
    """The four parts, which refer to each other."""
    folder = Path(__file__).parent
    parts = ("pool", "helper", "job", "judge")
    return "\n".join((folder / f"{part}.ll").read_text(encoding="utf-8") for part in parts)


_ALONE = """\
define void @tw_parallel(ptr %region, ptr %bases, i64 %extent, i32 %threads) nounwind {
  call void %region(ptr %bases, i64 0, i64 %extent, i64 0)
  ret void
}
define i32 @tw_enter(ptr %site, ptr %run, i32 %threads) nounwind {
  ret i32 1
}
define void @tw_leave(ptr %site, ptr %run) nounwind {
  ret void
}
define void @tw_judge(ptr %site, i64 %state, i64 %spent, i64 %time) nounwind {
  ret void
}
define void @tw_pool_counts(ptr %counts) nounwind {
  ret void
}
define void @tw_pool_stop() nounwind {
  ret void
}
"""
