"""Which passes LLVM leaves out: a setting of the whole process, shared by threads that emit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilework.kinds.cpu.jit import llvm

_ALWAYS = (
    "-disable-lsr", "-disable-cgp", "-disable-machine-licm", "-disable-machine-sink",
    "-disable-machine-cse", "-disable-post-ra",
)  # fmt: skip
PASSES = (
    *_ALWAYS, "-enable-misched", "-disable-block-placement", "-disable-tail-duplicate",
    "-disable-early-taildup", "-disable-branch-fold", "-disable-early-ifcvt",
)  # fmt: skip
"""Switches of passes that LLVM can leave out. Those that it leaves out take over half of its time.

Loops come with their addresses strength-reduced, with what is invariant outside, and with their
instructions in an order that fits 32 registers. These belong together: the scheduler undoes the
order, and what is moved out of a loop of a full tile drives accumulators to the stack. What no
switch leaves out, loads brought together, is held by a fence (`llvm/region.py`). A release of
LLVM that lacks one of the switches goes on without it.
"""
_REGROUPS = "-x86-machine-combiner"
SWITCHES = (*PASSES, _REGROUPS)
LEFT_OUT: dict[int, tuple[str, ...]] = {512: PASSES, 256: (*_ALWAYS, _REGROUPS)}
"""By the width of vectors, in bits. Of others nobody has tried what their code loses.

One pass regroups sums of integers, to be ready sooner. Nothing waits for those of an expanded
reduction, and with 16 registers their parts go to the stack: 178 accesses for 448 products of a
tile of four vectors. It changes nothing of floats.

With 16 registers a window that is expanded needs the scheduler (1.4 to 2.2 times as long without),
and loops around functions that branch need their blocks placed (1.2 to 1.4 times).
"""

_FORK_WAITS_S = 10.0


class _Setting:
    """Which of `SWITCHES` are left out.

    LLVM looks at its switches while it makes code. So threads emit beside each other as long as
    they want the same, and a change waits until nobody emits. Who waits for one holds back those
    who come later, so that it comes to an end. So does a fork: a child has none of the threads,
    and would inherit locks that they hold within LLVM.
    """

    def __init__(self) -> None:
        self._fresh()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._hold, after_in_parent=self._release, after_in_child=self._fresh
            )

    def _fresh(self) -> None:
        self._turn = threading.Lock()
        self._quiet = threading.Condition()
        self._emitting = 0
        self._skipped: frozenset[str] | None = None
        self._own = threading.local()
        self._held = False

    @contextmanager
    def __call__(self, vector_bits: int) -> Iterator[None]:
        skipped = frozenset(LEFT_OUT.get(vector_bits, ()))
        with self._turn, self._quiet:
            if self._skipped != skipped:
                self._quiet.wait_for(lambda: not self._emitting)
                self._skipped = None
                _set(skipped)
                self._skipped = skipped
            self._emitting += 1
        try:
            self._own.emits = True
            yield
        finally:
            self._own.emits = False
            with self._quiet:
                self._emitting = max(0, self._emitting - 1)  # a child forked in here begins anew
                self._quiet.notify_all()

    def _hold(self) -> None:
        """Wait until nobody emits, but not for long, nor for this thread itself."""
        if getattr(self._own, "emits", False):
            return
        self._held = self._turn.acquire(timeout=_FORK_WAITS_S)
        with self._quiet:
            self._quiet.wait_for(lambda: not self._emitting, _FORK_WAITS_S)

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._turn.release()


passes_skipped = _Setting()
"""``with passes_skipped(256):`` LLVM makes code for vectors of so many bits, see `LEFT_OUT`."""


def _set(skipped: frozenset[str]) -> None:
    for switch in SWITCHES:
        on = (switch in skipped) == switch.startswith("-disable")
        llvm().set_option("tilework", f"{switch}={int(on)}")
