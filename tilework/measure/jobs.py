"""What the workers do: build a candidate, prepare a task, verify and time a kernel.

These functions run in worker processes, which `tilework.measure.measurer` starts and feeds.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tilework.errors import DeviceError, DeviceLost, LaunchError, ScheduleError
from tilework.lower.protocol import builder_of
from tilework.measure.device import Device, device_of
from tilework.measure.error_text import describe_exception
from tilework.measure.replies import BuildReply, RunReply
from tilework.measure.settings import Settings
from tilework.measure.trial import Trial
from tilework.measure.turns import take_turns
from tilework.measure.verify import Answer, Reference, make_reference
from tilework.measure.worker import resolve
from tilework.record import Status

_CACHE_BYTES = 512 << 20
_FINALS_SAMPLE = 0.5  # of the usual length: shorter samples more often pass undisturbed
_references: OrderedDict[tuple[str, str, int], Reference] = OrderedDict()


@lru_cache(maxsize=8)
def _task(pickled: bytes) -> Any:
    return pickle.loads(pickled)


def _device(task: bytes, settings: Settings) -> Device:
    target = _task(task).target
    if settings.device:
        device: Device = resolve(settings.device)
        return device.for_target(target)
    return device_of(target)


def build(task: bytes, settings: Settings, sketch_id: int, row: tuple[int, ...]) -> BuildReply:
    """Builds a candidate of a pickled task."""
    began = time.perf_counter()
    try:
        target = _task(task).target
        builder = resolve(settings.builder) if settings.builder else builder_of(target)
        kernel = builder.build(_task(task), sketch_id, row)
        pickled = pickle.dumps(kernel, pickle.HIGHEST_PROTOCOL)
        compiler = builder.compiler(target)
    except ScheduleError as error:
        return BuildReply(Status.rejected, describe_exception("build", error))
    except Exception as error:
        return BuildReply(Status.compile_error, describe_exception("build", error))
    took = time.perf_counter() - began
    code, facts = kernel.code_hash, kernel.facts
    if kernel.unfit:
        why = f"build: {kernel.unfit}"
        return BuildReply(Status.unfit, why, b"", code, took, facts, compiler=compiler)
    return BuildReply(Status.ok, "", pickled, code, took, facts, kernel.outlook, compiler)


def calibrate(task: bytes, settings: Settings) -> float | str:
    """See `tilework.measure.device.Device.calibration_s`; or why the device is not to be had."""
    try:
        return _device(task, settings).calibration_s()
    except DeviceLost as error:
        return str(error)


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


def run(task: bytes, settings: Settings, kernel: bytes, best_latency_s: float | None) -> RunReply:
    """Verifies a pickled kernel against the reference of its task, then times it.

    Args:
        task, kernel: pickled.
        settings: how to time.
        best_latency_s: the best latency known, as it would be measured now.
    """
    trial = _load(task, settings, kernel)
    if isinstance(trial, RunReply):
        return trial
    try:
        reply = trial.verify()
        return trial.sample(best_latency_s) if reply.status == Status.ok else reply
    except Exception as error:
        return _raised("run", error, Status.run_error)


def finals(task: bytes, settings: Settings, kernels: Sequence[bytes]) -> list[RunReply]:
    """Verifies kernels of one task, then times those that are right in turns, round by round.

    The i-th samples of all of them were taken one right after the other. Large weights lie in the
    same memory for all: pages differ (huge ones are not always to be had), and with them the time
    by a half. Kernels that fail have a reply of their own and take no part.
    """
    loaded = [_load(task, settings, kernel) for kernel in kernels]
    replies = [one if isinstance(one, RunReply) else _reply_of(one.verify) for one in loaded]
    trials = {
        i: one
        for i, (one, reply) in enumerate(zip(loaded, replies, strict=True))
        if isinstance(one, Trial) and reply.status == Status.ok
    }
    if not trials:
        return replies
    rounds = settings.final_rounds
    turns = take_turns(
        [trial.bind() for trial in trials.values()],
        rounds,
        min_sample_s=settings.min_repeat_ms * _FINALS_SAMPLE * 1e-3,
        budget_s=rounds * len(trials) * max(settings.time_budget_ms * 1e-3, 0.01),
        before=next(iter(trials.values())).before,
        stopwatch=_device(task, settings).stopwatch,
    )
    for (i, trial), taken in zip(trials.items(), turns, strict=True):
        again = _reply_of(trial.verify)  # what the copies of weights held was the last one's
        if again.status == Status.ok:
            again = replace(again, samples=taken.seconds, disturbed=taken.disturbed)
        replies[i] = again
    return replies


def _load(task: bytes, settings: Settings, kernel: bytes) -> Trial | RunReply:
    reference = _reference(task, settings.seed) if settings.verify else None
    try:
        device = _device(task, settings)
        plan = pickle.loads(kernel)
        loaded = device.load(plan)
    except Exception as error:
        return _raised("load", error, Status.launch_error)
    try:
        return Trial(plan, loaded, device, _task(task).target, reference, settings)
    except Exception as error:
        return _raised("run", error, Status.run_error)


def _reply_of(verify: Callable[[], RunReply]) -> RunReply:
    """The reply of a kernel, or that it raised an error."""
    try:
        return verify()
    except Exception as error:
        return _raised("run", error, Status.run_error)


def _raised(stage: str, error: Exception, otherwise: Status) -> RunReply:
    """The reply of a kernel at which an error was raised."""
    status = otherwise
    if isinstance(error, DeviceLost):
        status = Status.worker_lost
    elif isinstance(error, LaunchError):
        status = Status.launch_error
    fatal = isinstance(error, DeviceError) and error.fatal
    return RunReply(status, describe_exception(stage, error), tainted=fatal)
