"""What the workers do: build a candidate, prepare a task, verify and time a kernel.

These functions run in worker processes, which `tilework.measure.measurer` starts and feeds.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tilework.errors import ScheduleError
from tilework.measure.turns import take_turns
from tilework.measure.types import BuildReply, RunOptions, RunReply, describe_exception
from tilework.measure.verify import Answer, Buffer, Reference, compare, make_reference
from tilework.measure.worker import resolve
from tilework.record import Status
from tilework.runtime import samples as timing

_CACHE_BYTES = 512 << 20
_CHEAP_CHECK_S = 0.02
_ROTATE_FROM = 1 << 20
_MAX_COPIES = 64
_DUEL_SAMPLE = 0.5  # of the usual length: shorter samples more often pass undisturbed
_references: OrderedDict[tuple[str, str, int], Reference] = OrderedDict()


@lru_cache(maxsize=8)
def _task(pickled: bytes) -> Any:
    return pickle.loads(pickled)


def build(function: str, task: bytes, sketch_id: int, row: tuple[int, ...]) -> BuildReply:
    """Calls the build function `function` ("module:function") on a pickled task."""
    began = time.perf_counter()
    try:
        kernel = resolve(function)(_task(task), sketch_id, row)
        pickled = pickle.dumps(kernel, pickle.HIGHEST_PROTOCOL)
    except ScheduleError as error:
        return BuildReply(Status.rejected, describe_exception("build", error))
    except Exception as error:
        return BuildReply(Status.compile_error, describe_exception("build", error))
    return BuildReply(Status.ok, "", pickled, kernel.code_hash, time.perf_counter() - began)


def calibrate() -> float:
    """See `timing.calibration_s`."""
    return timing.calibration_s()


def prepare(task: bytes, seed: int, answer: Answer | None) -> Answer:
    """Makes inputs and reference outputs of a task and keeps them for `run`."""
    return _reference(task, seed, answer).answer


def _reference(task: bytes, seed: int, answer: Answer | None = None) -> Reference:
    known = dict(getattr(_task(task), "inputs", {}))
    key = (_task(task).workload_key, _digest(known), seed)
    if key not in _references:
        _references[key] = make_reference(_task(task).compute_dag, seed, answer, known)
    _references.move_to_end(key)
    while len(_references) > 1 and sum(r.nbytes for r in _references.values()) > _CACHE_BYTES:
        _references.popitem(last=False)
    return _references[key]


def _digest(arrays: dict[str, np.ndarray]) -> str:
    """Identity of a task's own inputs: networks may share a workload, but not these."""
    text = hashlib.sha256()
    for name in sorted(arrays):
        text.update(name.encode())
        text.update(np.ascontiguousarray(arrays[name]).tobytes())
    return text.hexdigest() if arrays else ""


def run(
    task: bytes,
    seed: int,
    kernel: bytes,
    load_function: str,
    options: RunOptions,
    best_latency_s: float | None,
) -> RunReply:
    """Verifies a pickled kernel against the reference of its task, then times it.

    Args:
        task, kernel: pickled.
        seed: of the inputs.
        load_function: "module:function" that makes a callable of the kernel.
        options: how to time.
        best_latency_s: the best latency known, as it would be measured now.
    """
    trial = _load(kernel, load_function, _reference(task, seed), options)
    if isinstance(trial, RunReply):
        return trial
    try:
        reply = trial.verify()
        return trial.sample(best_latency_s) if reply.status == Status.ok else reply
    except Exception as error:
        return RunReply(Status.run_error, describe_exception("run", error))


def duel(
    task: bytes,
    seed: int,
    kernels: Sequence[bytes],
    load_function: str,
    options: RunOptions,
    rounds: int,
) -> list[RunReply]:
    """Verifies kernels of one task, then times those that are right in turns, round by round.

    The i-th samples of all of them were taken one right after the other. Large weights lie in the
    same memory for all: pages differ (huge ones are not always to be had), and with them the time
    by a half. Kernels that fail have a reply of their own and take no part.
    """
    reference = _reference(task, seed)
    loaded = [_load(kernel, load_function, reference, options) for kernel in kernels]
    replies = [one if isinstance(one, RunReply) else _guarded(one.verify) for one in loaded]
    trials = {
        i: one
        for i, (one, reply) in enumerate(zip(loaded, replies, strict=True))
        if isinstance(one, _Trial) and reply.status == Status.ok
    }
    if not trials:
        return replies
    turns = take_turns(
        [trial.bind() for trial in trials.values()],
        rounds,
        min_sample_s=options.min_repeat_ms * _DUEL_SAMPLE * 1e-3,
        budget_s=rounds * len(trials) * max(options.time_budget_ms * 1e-3, 0.01),
        before=_flush(options.cold_cache_bytes) if options.cold_cache_bytes else None,
    )
    for (i, trial), taken in zip(trials.items(), turns, strict=True):
        again = _guarded(trial.verify)  # what the copies of weights held was the last one's
        if again.status == Status.ok:
            again = replace(again, samples=taken.seconds, disturbed=taken.disturbed)
        replies[i] = again
    return replies


def _load(
    kernel: bytes, load_function: str, reference: Reference, options: RunOptions
) -> _Trial | RunReply:
    try:
        plan = pickle.loads(kernel)
        loaded = resolve(load_function)(plan)
    except Exception as error:
        return RunReply(Status.launch_error, describe_exception("load", error))
    try:
        return _Trial(plan, loaded, reference, options)
    except Exception as error:
        return RunReply(Status.run_error, describe_exception("run", error))


def _guarded(verify: Callable[[], RunReply]) -> RunReply:
    try:
        return verify()
    except Exception as error:
        return RunReply(Status.run_error, describe_exception("run", error))


class _Trial:
    """One loaded kernel with its buffers."""

    def __init__(
        self, kernel: Any, loaded: Any, reference: Reference, options: RunOptions
    ) -> None:
        self._loaded = loaded
        self._reference = reference
        self._options = options
        self._inputs, self._outputs = [], []
        self._args = kernel.args
        values = iter(reference.inputs)
        for arg in kernel.args:
            if arg.role == "input":
                value = next(values)
                value = arg.packing.apply(value) if arg.packing else value
                buffer = Buffer(value.shape, value.dtype)
                np.copyto(buffer.array, value)
                self._inputs.append(buffer)
            else:
                self._outputs.append(Buffer(arg.shape, arg.dtype))
        size = max(kernel.workspace_bytes(options.threads), 64)  # an address, even if unused
        self._workspace = Buffer((size,), np.uint8)
        self._buffers = [*self._inputs, *self._outputs]
        self._arrays = [buffer.array for buffer in self._buffers]

    def verify(self) -> RunReply:
        """Checks the outputs with all threads and, where cheap, with one."""
        options = self._options
        began = time.perf_counter()
        reply = self._verify(options.threads)
        elapsed = time.perf_counter() - began
        if reply.status == Status.ok and options.threads > 1 and elapsed < _CHEAP_CHECK_S:
            reply = self._verify(1)
        return reply

    def sample(self, best_latency_s: float | None) -> RunReply:
        """Times the kernel, and looks at its outputs once more."""
        options = self._options
        call = self.bind()
        samples = timing.take_samples(
            call,
            repeats=options.repeats,
            min_sample_s=options.min_repeat_ms * 1e-3,
            budget_s=options.time_budget_ms * 1e-3,
            short_look=options.short_look,
            best_s=best_latency_s or float("inf"),
            extra=options.repeats // 2,
            before=_flush(options.cold_cache_bytes) if options.cold_cache_bytes else None,
        )
        return self.finish(samples.seconds)

    def finish(self, seconds: tuple[float, ...], disturbed: tuple[bool, ...] = ()) -> RunReply:
        """The reply with these samples, if the outputs are still right."""
        after = self._check(f"after {self._options.threads}-thread timing")
        if after.status != Status.ok:
            return after
        return RunReply(Status.ok, "", seconds, after.max_rel_error)

    def _verify(self, threads: int) -> RunReply:
        """One call on poisoned outputs and workspace, then the comparison."""
        for buffer in (*self._outputs, self._workspace):
            buffer.poison()
        self._loaded(self._arrays, self._workspace.array, threads)
        return self._check(f"with {threads} threads" if threads > 1 else "with 1 thread")

    def _check(self, when: str) -> RunReply:
        if not all(buffer.intact for buffer in (*self._buffers, self._workspace)):
            error = f"run: wrote outside its buffers, {when}"
            return RunReply(Status.wrong_answer, error, max_rel_error=None, tainted=True)
        found = compare([buffer.array for buffer in self._outputs], self._reference)
        if found.text:
            error = f"run: {found.text}, {when}"
            return RunReply(Status.wrong_answer, error, max_rel_error=found.error)
        return RunReply(Status.ok, max_rel_error=found.error)

    def bind(self) -> Callable[[], object]:
        """The call that is timed: all threads, arguments fixed."""
        if not hasattr(self._loaded, "bind"):
            return partial(
                self._loaded, self._arrays, self._workspace.array, self._options.threads
            )
        calls = [
            self._loaded.bind(arrays, self._workspace.array, self._options.threads)
            for arrays in self._copies()
        ]
        if len(calls) == 1:
            only: Callable[[], object] = calls[0]
            return only
        turn = itertools.cycle(calls)
        return lambda: next(turn)()

    def _copies(self) -> list[list[np.ndarray]]:
        """Argument lists with large weights copied until they fill `rotate_bytes`."""
        large = [
            i
            for i, arg in enumerate(self._args)
            if arg.role == "input"
            and (arg.packing or arg.name in self._reference.stored)
            and self._arrays[i].nbytes >= _ROTATE_FROM
        ]
        size = sum(self._arrays[i].nbytes for i in large)
        count = min(self._options.rotate_bytes // max(size, 1), _MAX_COPIES) if large else 1
        lists = [self._arrays]
        pool = _pool(self._options.rotate_bytes) if count > 1 else None
        offset = 0
        for _ in range(count - 1):
            arrays = list(self._arrays)
            for i in large:
                end = offset + arrays[i].nbytes
                assert pool is not None
                view = pool[offset:end].view(arrays[i].dtype)
                arrays[i] = view.reshape(arrays[i].shape)
                np.copyto(arrays[i], self._arrays[i])
                offset += -(-(end - offset) // 4096) * 4096
            lists.append(arrays)
        return lists


@lru_cache(maxsize=1)
def _pool(size: int) -> np.ndarray:
    """Memory for copies of weights, the same for all kernels; 64-byte aligned."""
    raw = np.zeros(size + _MAX_COPIES * 4096 + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :]


@lru_cache(maxsize=1)
def _flush(size: int) -> Callable[[], object]:
    """A function that reads a buffer of `size` bytes, so that the caches hold nothing else."""
    buffer = np.ones(size // 8, np.int64)
    return partial(np.bitwise_and.reduce, buffer)
