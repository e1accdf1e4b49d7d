"""The measurer: a pool of builders and one runner, which survive what candidates do to them."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tilework import kinds
from tilework.errors import TileworkError
from tilework.measure.batch import Batch, Job
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.device import device_of
from tilework.measure.process import Worker, WorkerDied, wait_for
from tilework.measure.settings import Settings
from tilework.record import Status
from tilework.target import Target
from tilework.target.host import available_cores

BUILDER_NICE = 10
"""Builders that work while the runner measures give way to it. Alone they need not."""

_CODES_KEPT = 50_000
_CALIBRATIONS_KEPT = 64
_RECYCLE_AFTER = 2000
_MAX_FAILED_STARTS = 3


class MeasureError(TileworkError):
    """Measuring is impossible here, whatever the candidate: a worker cannot be started."""


class Measurer:
    """Builds, verifies and times candidates on the device of a target.

    Builders are a pool of processes; one runner process verifies and times, one candidate at
    a time. A candidate that kills or hangs its process costs that process: it is replaced, the
    candidate recorded, the others go on. Use it as a context manager: leaving it, by an exception
    or Ctrl-C too, ends every process; so does the end of this process, however it comes.

    A batch is built first and run afterwards, so that building disturbs no measurement. With
    `overlap`, which pays on machines with cores to spare, both happen at once, and the builders
    have low priority. (Without such cores there is nothing to gain: builders that stand still
    while samples are taken, and work in between, made a run 10 % slower.)
    """

    def __init__(self, target: Target, settings: Settings | None = None, **changes: Any) -> None:
        """Describes how to measure; processes start on entering the context, or at first use.

        Args:
            target: the target to measure on: its `num_cores` is the number of threads.
            settings: how; by default as the target's device wants it.
            changes: fields of `Settings` that are to be others, by name.

        Raises:
            TargetError: there is no such device here.
        """
        device = device_of(target)
        settings = replace(settings or device.settings(), **changes)
        cores, busy = available_cores(), device.host_cores(target)
        overlap = cores >= busy + 2 if settings.overlap is None else settings.overlap
        spare = max(1, cores - busy) if overlap else cores
        processes = settings.build_processes or spare
        self.target = target
        self.settings = replace(settings, overlap=overlap, build_processes=processes)
        if not settings.device:
            device.require(target)
        kind = kinds.known_kind(target.kind)
        self._builder_module = _module_of(settings.builder or kind.builder)
        self._device_module = _module_of(settings.device or kind.device)
        rooms = (kind.space, kind.lowering, settings.builder or kind.builder)
        self._preload = ("tilework.measure.jobs", *map(_module_of, rooms), self._device_module)
        self._environment = device.environment
        self._lock = threading.Lock()
        self._builders: list[Worker[Job]] = []
        self._runner: Worker[Job] | None = None
        self._failed_starts = 0
        self._codes: OrderedDict[tuple[str, str], Measured] = OrderedDict()
        self._calibrations: deque[float] = deque(maxlen=_CALIBRATIONS_KEPT)

    def __enter__(self) -> Measurer:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(
        self,
        task: Any,
        candidates: Sequence[Candidate],
        best_latency_s: float | None = None,
        progress: Callable[[Measured], None] | None = None,
        limit: int | None = None,
    ) -> list[Measured]:
        """Builds, verifies and times candidates of one task.

        Args:
            task: the search task; its target must be this measurer's.
            candidates: what to measure.
            best_latency_s: the best latency known; candidates plainly slower get a short look
                only. It falls as the batch goes on.
            progress: called with each result as soon as it is known, in any order.
            limit: how many to run. All are built before; those behind the first so many stand by
                for the places of candidates that their code condemns. None runs all.

        Returns:
            One result per candidate, in their order, whatever a candidate does; with a `limit`
            without those that were built only.

        Raises:
            MeasureError: worker processes cannot be started at all, or there is no device to be
                had; the message says why.
        """
        key = str(task.workload_key)
        codes = {code: measured for (k, code), measured in self._codes.items() if k == key}
        batch = Batch(
            self.settings, pickle.dumps(task), candidates, best_latency_s, codes,
            self._calibrations, limit=limit,
        )  # fmt: skip
        results = self._measured(batch, progress)
        self.remember(key, results)
        return results

    def finals(self, task: Any, candidates: Sequence[Candidate]) -> list[Measured]:
        """Builds and verifies candidates of one task, then times them in turns.

        Every candidate gets as many samples, and the i-th samples of all were taken one after the
        other, so that what else the machine does hits all alike. Their latencies may be compared
        with each other to about a percent, whatever the machine does.

        Returns:
            One result per candidate, in their order; failures among them take no part.

        Raises:
            MeasureError: see `measure`.
        """
        batch = Batch(self.settings, pickle.dumps(task), candidates, None, finals=True)
        return self._measured(batch, None)

    @property
    def build_factor(self) -> int:
        """Candidates to build for each one that is measured; see `Settings`."""
        return self.settings.build_factor

    def remember(self, workload_key: str, results: Iterable[Measured]) -> None:
        """Candidates whose code is that of one of these are not measured again."""
        for one in results:
            if one.code_hash and one.status in (Status.ok, Status.wrong_answer):
                self._codes.setdefault((workload_key, one.code_hash), one)
        while len(self._codes) > _CODES_KEPT:
            self._codes.popitem(last=False)

    def _measured(
        self, batch: Batch, progress: Callable[[Measured], None] | None
    ) -> list[Measured]:
        with self._lock:
            try:
                self._start()
                results = self._run(batch, progress)
            except BaseException:
                self._stop()
                raise
        if batch.calibration_s is not None:
            self._calibrations.append(batch.calibration_s)
        return results

    def close(self) -> None:
        """Ends all processes. The measurer starts new ones if it is used again."""
        with self._lock:
            self._stop()

    @property
    def pids(self) -> list[int]:
        """The process ids of the builders and, last, of the runner."""
        return [worker.pid for worker in self._workers()]

    def _run(self, batch: Batch, progress: Callable[[Measured], None] | None) -> list[Measured]:
        reported = 0
        while True:
            for result in batch.log[reported:]:
                if progress:
                    progress(result)
            reported = len(batch.log)
            if batch.done:
                for worker in self._workers():
                    if worker.job is not None:  # for a candidate that failed with its task
                        self._replace(batch, worker)
                return batch.results()
            for builder in self._builders:
                if builder.idle:
                    batch.feed_builder(builder)
            assert self._runner is not None
            if self._runner.idle:
                batch.feed_runner(self._runner)
            replied, late = wait_for(self._workers())
            for worker in replied:
                self._take_reply(batch, worker)
            for worker in late:
                self._give_up(batch, worker)

    def _take_reply(self, batch: Batch, worker: Worker[Job]) -> None:
        job = worker.job
        try:
            succeeded, value = worker.receive()
        except WorkerDied as death:
            if job is None:
                self._count_failed_start(str(death))
            else:
                batch.died(job, death)
            self._replace(batch, worker)
            return
        if job is None:
            self._failed_starts = 0
            return
        batch.replied(job, succeeded, value)
        if batch.impossible:
            raise MeasureError(batch.impossible)
        if batch.tainted or worker.jobs_done >= _RECYCLE_AFTER:
            batch.tainted = False
            self._replace(batch, worker)

    def _give_up(self, batch: Batch, worker: Worker[Job]) -> None:
        if worker.job is not None:
            batch.timed_out(worker.job)
        else:
            self._count_failed_start("the worker did not start in time")
        self._replace(batch, worker)

    def _count_failed_start(self, text: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            raise MeasureError(
                f"cannot start a measurement worker ({self._builder_module}, "
                f"{self._device_module}): {text}"
            )

    def _replace(self, batch: Batch, worker: Worker[Job]) -> None:
        worker.kill()
        if worker is self._runner:
            batch.runner_replaced()
            self._runner = self._new_runner()
        else:
            self._builders[self._builders.index(worker)] = self._new_builder()

    def _start(self) -> None:
        if self._runner is None:
            self._failed_starts = 0
            self._runner = self._new_runner()
            while len(self._builders) < (self.settings.build_processes or 1):
                self._builders.append(self._new_builder())

    def _new_builder(self) -> Worker[Job]:
        nice = BUILDER_NICE if self.settings.overlap else 0
        return Worker(nice=nice, preload=self._preload)

    def _new_runner(self) -> Worker[Job]:
        return Worker(preload=self._preload, environment=self._environment)

    def _workers(self) -> list[Worker[Job]]:
        return [*self._builders, *([self._runner] if self._runner else [])]

    def _stop(self) -> None:
        workers, self._builders, self._runner = self._workers(), [], None
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.kill()


def _module_of(room: str) -> str:
    return room.partition(":")[0]
