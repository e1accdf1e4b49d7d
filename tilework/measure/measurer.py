"""The measurer: a pool of builders and one runner, which survive what candidates do to them."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilework.measure.batch import Batch, Job
from tilework.measure.process import Worker, WorkerDied, wait_for
from tilework.measure.types import Candidate, Measured, MeasureError, RunOptions
from tilework.record import Status
from tilework.target.host import available_cores

BUILDER_NICE = 10
"""Builders that work while the runner measures give way to it. Alone they need not."""

OPENMP = {"OMP_PROC_BIND": "true"}
"""The runner's threads keep to their cores. On a busy machine two of them can otherwise share one
for seconds while the other core does something else: a kernel then takes ten times as long."""

_CODES_KEPT = 50_000
_CALIBRATIONS_KEPT = 64
_RECYCLE_AFTER = 2000
_MAX_FAILED_STARTS = 3


@dataclass(frozen=True)
class Settings:
    """What a measurer was told; the fields are `Measurer`'s arguments."""

    build_processes: int
    build_timeout_s: float
    run_timeout_s: float
    reference_timeout_s: float
    build_function: str
    load_function: str
    seed: int
    overlap: bool
    final_rounds: int
    run: RunOptions


class Measurer:
    """Builds, verifies and times candidates on this machine.

    Builders are a pool of processes; one runner process verifies and times, one candidate at
    a time. A candidate that kills or hangs its process costs that process: it is replaced, the
    candidate recorded, the others go on. Use it as a context manager: leaving it, by an exception
    or Ctrl-C too, ends every process; so does the end of this process, however it comes.

    A batch is built first and run afterwards, so that building disturbs no measurement. With
    `overlap`, which pays on machines with cores to spare, both happen at once, and the builders
    have low priority. (Without such cores there is nothing to gain: builders that stand still
    while samples are taken, and work in between, made a run 10 % slower.)
    """

    def __init__(
        self,
        target: Any,
        *,
        build_processes: int | None = None,
        build_timeout_s: float = 15.0,
        run_timeout_s: float = 10.0,
        reference_timeout_s: float = 120.0,
        min_repeat_ms: float = 1.0,
        repeats: int = 12,
        short_look: int = 3,
        final_rounds: int = 25,
        time_budget_ms: float = 30.0,
        cold_cache: bool = False,
        overlap: bool | None = None,
        build_function: str = "tilework.kinds.cpu.build:build",
        load_function: str = "tilework.kinds.cpu.kernel_call:load_kernel",
        seed: int = 0,
    ) -> None:
        """Describes how to measure; processes start on entering the context, or at first use.

        Args:
            target: the target to measure on: its `num_cores` is the number of threads.
            build_processes: default: the cores; with `overlap`, those that the runner leaves.
            build_timeout_s: limit for building one candidate, in seconds.
            run_timeout_s: limit for verifying and timing one, in seconds.
            reference_timeout_s: limit for computing a task's reference output.
            min_repeat_ms: a sample repeats the kernel until it lasts about this long.
            repeats: samples of a contender, as far as `time_budget_ms` allows.
            short_look: samples of a candidate that is not given up, even if time is over.
            final_rounds: samples of each finalist.
            time_budget_ms: no further sample of a candidate is begun after this long.
            cold_cache: empty the caches before every sample; a sample is then a single call.
            overlap: build while measuring; default: if two cores stay free of the kernel.
            build_function: "module:function" called as `function(task, sketch_id, row)`.
            load_function: "module:function" called with what the build function returned.
            seed: of the random inputs.
        """
        cores = available_cores()
        if overlap is None:
            overlap = cores >= target.num_cores + 2
        spare = max(1, cores - target.num_cores) if overlap else cores
        cache = max(int(target.l3_bytes), int(target.l2_bytes), 8 << 20)
        flush = cache + cache // 4 if cold_cache else 0
        self.target = target
        self.settings = Settings(
            build_processes=build_processes or spare,
            build_timeout_s=build_timeout_s,
            run_timeout_s=run_timeout_s,
            reference_timeout_s=reference_timeout_s,
            build_function=build_function,
            load_function=load_function,
            seed=seed,
            overlap=overlap,
            final_rounds=final_rounds,
            run=RunOptions(
                threads=target.num_cores,
                min_repeat_ms=min_repeat_ms,
                repeats=repeats,
                short_look=short_look,
                time_budget_ms=time_budget_ms,
                cold_cache_bytes=flush,
            ),
        )
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
    ) -> list[Measured]:
        """Builds, verifies and times candidates of one task.

        Args:
            task: the search task; its target must be this measurer's.
            candidates: what to measure.
            best_latency_s: the best latency known; candidates plainly slower get a short look
                only. It falls as the batch goes on.
            progress: called with each result as soon as it is known, in any order.

        Returns:
            One result per candidate, in their order, whatever a candidate does.

        Raises:
            MeasureError: worker processes cannot be started at all; the message says why.
        """
        key = str(task.workload_key)
        codes = {code: found for (k, code), found in self._codes.items() if k == key}
        batch = Batch(
            self.settings, pickle.dumps(task), candidates, best_latency_s, codes,
            self._calibrations,
        )  # fmt: skip
        results = self._measured(batch, progress)
        self.remember(key, results)
        return results

    def duel(self, task: Any, candidates: Sequence[Candidate]) -> list[Measured]:
        """Builds and verifies candidates of one task, then times them in turns.

        Every candidate gets as many samples, and the i-th samples of all were taken one after the
        other, so that what else the machine does hits all alike. Their latencies may be compared
        with each other to about a percent, whatever the machine does.

        Returns:
            One result per candidate, in their order; failures among them take no part.

        Raises:
            MeasureError: see `measure`.
        """
        batch = Batch(self.settings, pickle.dumps(task), candidates, None, duel=True)
        return self._measured(batch, None)

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
                f"cannot start a measurement worker ({self.settings.build_function}, "
                f"{self.settings.load_function}): {text}"
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
            while len(self._builders) < self.settings.build_processes:
                self._builders.append(self._new_builder())

    def _new_builder(self) -> Worker[Job]:
        module = self.settings.build_function.partition(":")[0]
        nice = BUILDER_NICE if self.settings.overlap else 0
        return Worker(nice=nice, preload=["tilework.measure.jobs", module])

    def _new_runner(self) -> Worker[Job]:
        module = self.settings.load_function.partition(":")[0]
        return Worker(preload=["tilework.measure.jobs", module], environment=OPENMP)

    def _workers(self) -> list[Worker[Job]]:
        return [*self._builders, *([self._runner] if self._runner else [])]

    def _stop(self) -> None:
        workers, self._builders, self._runner = self._workers(), [], None
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.kill()
