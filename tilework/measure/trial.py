"""One loaded kernel on a device, with its buffers: verified, then timed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from tilework.index.extents import shape_at
from tilework.index.symbols import Point, value_at
from tilework.measure.device import Buffer, Device, Loaded
from tilework.measure.replies import RunReply
from tilework.measure.settings import Settings
from tilework.measure.verify import Reference, compare
from tilework.record import Status
from tilework.runtime.samples import take_samples

_CHEAP_CHECK_S = 0.02
_ROTATE_FROM = 1 << 20
_MAX_COPIES = 64


class Trial:
    """A kernel of a task on its way through verification and timing.

    Args:
        kernel: what the builder made.
        loaded: the same, loaded by ``device``.
        device: where it runs.
        target: whose number of cores is that of the timed calls' threads.
        reference: inputs, and the right outputs; None if the device computes nothing.
        settings: how to time.
        at: values of the symbols of a kernel whose extents a run brings.
    """

    def __init__(
        self,
        kernel: Any,
        loaded: Loaded,
        device: Device,
        target: Any,
        reference: Reference | None,
        settings: Settings,
        at: Point = MappingProxyType({}),
    ) -> None:
        self._args = kernel.args
        self._loaded = loaded
        self._device = device
        self._target = target
        self._threads = int(target.num_cores)
        self._reference = reference
        self._settings = settings
        self._buffers: list[Buffer] = []
        self._outputs: list[Buffer] = []
        values = iter(reference.inputs if reference else ())
        symbols = {symbol.name: number for symbol, number in at.items()}
        for arg in kernel.args:
            if arg.role == "input" and reference:
                value = next(values)
                value = arg.packing.apply(value) if arg.packing else value
                buffer = device.allocate(value.shape, str(value.dtype))
                buffer.write(value)
            else:
                buffer = device.allocate(shape_at(arg.shape, at), arg.dtype)
            if arg.role == "symbol":
                buffer.write(np.array(symbols[arg.name]))
            elif arg.role == "output":
                self._outputs.append(buffer)
            self._buffers.append(buffer)
        size = value_at(kernel.workspace_bytes(self._threads), at)
        size = max(size, 64)  # an address, even if unused
        self._workspace = device.allocate((size,), "uint8")

    def verify(self) -> RunReply:
        """Checks the outputs with all threads and, where cheap, with one."""
        if self._reference is None:
            return RunReply(Status.ok)
        began = time.perf_counter()
        reply = self._verify(self._threads)
        elapsed = time.perf_counter() - began
        if reply.status == Status.ok and self._threads > 1 and elapsed < _CHEAP_CHECK_S:
            reply = self._verify(1)
        return reply

    def sample(self, best_latency_s: float | None) -> RunReply:
        """Times the kernel, and looks at its outputs once more."""
        settings = self._settings
        samples = take_samples(
            self.bind(),
            repeats=settings.repeats,
            min_sample_s=settings.min_repeat_ms * 1e-3,
            budget_s=settings.time_budget_ms * 1e-3,
            short_look=settings.short_look,
            best_s=best_latency_s or float("inf"),
            extra=settings.repeats // 2,
            before=self.before,
            stopwatch=self._device.stopwatch,
        )
        after = self._check(f"after {self._threads}-thread timing")
        if after.status != Status.ok:
            return after
        return RunReply(Status.ok, "", samples.seconds, after.max_rel_error)

    @property
    def before(self) -> Callable[[], object] | None:
        """What comes before every sample, if something does."""
        return self._device.flush(self._target) if self._settings.cold_cache else None

    def bind(self) -> Callable[[], object]:
        """The call that is timed: all threads, arguments fixed."""
        calls = [
            self._loaded.bind(buffers, self._workspace, self._threads)
            for buffers in [self._buffers, *self._copies()]
        ]
        if len(calls) == 1:
            return calls[0]
        turn = itertools.cycle(calls)
        return lambda: next(turn)()

    def _verify(self, threads: int) -> RunReply:
        """One call on poisoned outputs and workspace, then the comparison."""
        for buffer in (*self._outputs, self._workspace):
            buffer.poison()
        self._loaded.bind(self._buffers, self._workspace, threads)()
        return self._check(f"with {threads} threads" if threads > 1 else "with 1 thread")

    def _check(self, when: str) -> RunReply:
        if self._reference is None:
            return RunReply(Status.ok)
        if not all(buffer.intact for buffer in (*self._buffers, self._workspace)):
            error = f"run: wrote outside its buffers, {when}"
            return RunReply(Status.wrong_answer, error, max_rel_error=None, tainted=True)
        difference = compare([buffer.read() for buffer in self._outputs], self._reference)
        if difference.text:
            error = f"run: {difference.text}, {when}"
            return RunReply(Status.wrong_answer, error, max_rel_error=difference.error)
        return RunReply(Status.ok, max_rel_error=difference.error)

    def _copies(self) -> list[list[Buffer]]:
        """Argument lists with large weights copied until they fill `Settings.rotate_bytes`."""
        reference = self._reference
        if reference is None:
            return []
        large = [
            i
            for i, arg in enumerate(self._args)
            if arg.role == "input"
            and (arg.packing or arg.name in reference.stored)
            and self._buffers[i].nbytes >= _ROTATE_FROM
        ]
        size = sum(self._buffers[i].nbytes for i in large)
        count = min(self._settings.rotate_bytes // max(size, 1), _MAX_COPIES) if large else 1
        if count <= 1:
            return []
        out = []
        for copy in self._device.copies([self._buffers[i] for i in large], count - 1):
            changed = dict(zip(large, copy, strict=True))
            out.append([changed.get(i, buffer) for i, buffer in enumerate(self._buffers)])
        return out
