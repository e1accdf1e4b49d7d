"""The state of one batch: which candidate is where, and what became of it.

A candidate whose generated code was measured before, in this batch or an earlier one, is not
measured again: it gets the result of its equal.

With a limit all candidates are built before any runs. The first ones run, so that the mixture that
was chosen is kept; but the others stand by for the places of those that their code condemns.

`Batch` decides; it starts no process and waits for nothing. `Measurer` tells it which workers are
idle and what workers did.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilework.frozen import frozen
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.drift import slowdown
from tilework.measure.error_text import shorten
from tilework.measure.process import Worker, WorkerDied
from tilework.measure.replies import BuildReply, RunReply
from tilework.measure.settings import Settings
from tilework.measure.turns import Turns, latencies
from tilework.measure.verify import Answer
from tilework.record import Status
from tilework.runtime.samples import quantile, spread

JOBS = "tilework.measure.jobs"


@frozen
class Job:
    """What a worker is doing: build, prepare, calibrate, run or finals; `index` is a candidate."""

    stage: str
    index: int = -1


class Batch:
    """Candidates of one task on their way through building and running.

    Attributes:
        log: results in the order in which they became known.
        tainted: the runner's memory cannot be trusted after its last reply.
        impossible: why nothing can be measured here, whatever the candidate; else empty.
    """

    def __init__(
        self,
        settings: Settings,
        task: bytes,
        candidates: Sequence[Candidate],
        best_latency_s: float | None,
        codes: Mapping[str, Measured] | None = None,
        calibrations: Sequence[float] = (),
        finals: bool = False,
        limit: int | None = None,
    ) -> None:
        """Describes what is to be measured.

        Args:
            settings: how.
            task: pickled.
            candidates: of that task.
            best_latency_s: the best latency known of the task.
            codes: results of codes that were measured before.
            calibrations: of earlier batches, seconds.
            finals: time all candidates in turns once they are built, instead of one by one.
            limit: how many candidates to run; those behind the first so many stand by. None: all.
        """
        self._settings = settings
        self._task = task
        self._candidates = list(candidates)
        self._best_s = best_latency_s or math.inf
        self._results: dict[int, Measured] = {}
        self._to_build = deque(range(len(self._candidates)))
        self._to_run: dict[int, BuildReply] = {}
        self._lost_once: set[Job] = set()
        self._prepared = False
        self._answer: Answer | None = None
        self._calibration_s: float | None = None
        self._building = 0
        self._codes = dict(codes or {})
        self._equal: dict[str, list[int]] = {}  # code -> candidates that wait for its result
        self._waiting: dict[int, BuildReply] = {}
        self._calibrations = calibrations
        self._finals = finals
        self._limit = limit
        self._left_behind: set[int] = set()
        self.log: list[Measured] = []
        self.tainted = False
        self.impossible = ""

    @property
    def done(self) -> bool:
        """Whether every candidate has a result, or was left behind."""
        return len(self._results) + len(self._left_behind) == len(self._candidates)

    def results(self) -> list[Measured]:
        """The results in the order of the candidates; only when `done`."""
        return [self._results[index] for index in sorted(self._results)]

    def feed_builder(self, worker: Worker[Job]) -> None:
        """Gives an idle builder the next candidate, if there is one."""
        if not self._to_build:
            return
        index = self._to_build.popleft()
        candidate = self._candidates[index]
        self._building += 1
        worker.ask(
            Job("build", index), self._settings.build_timeout_s, f"{JOBS}:build",
            self._task, self._settings, candidate.sketch_id, candidate.row,
        )  # fmt: skip

    def feed_runner(self, worker: Worker[Job]) -> None:
        """Gives the idle runner what is next: the reference, the calibration, a kernel."""
        settings = self._settings
        building = bool(self._to_build) or self._building > 0
        if self._limit is not None and not building:
            self._choose(self._limit)
        if self.done:
            return
        if not self._prepared and settings.verify:
            args = (self._task, settings.seed, self._answer)
            worker.ask(Job("prepare"), settings.reference_timeout_s, f"{JOBS}:prepare", *args)
            return
        wait = self._finals or self._limit is not None or not settings.overlap
        if not self._to_run or (building and wait):
            return
        if self._calibration_s is None:
            limit = settings.run_timeout_s
            worker.ask(Job("calibrate"), limit, f"{JOBS}:calibrate", self._task, settings)
            return
        if self._finals:
            kernels = [self._to_run[index].kernel for index in sorted(self._to_run)]
            limit = settings.run_timeout_s * len(kernels)
            worker.ask(Job("finals"), limit, f"{JOBS}:finals", self._task, settings, kernels)
            return
        index = min(self._to_run)
        best = None
        if self._best_s < math.inf:
            best = self._best_s * slowdown(self._calibration_s, self._calibrations)
        worker.ask(
            Job("run", index), settings.run_timeout_s, f"{JOBS}:run", self._task, settings,
            self._to_run[index].kernel, best,
        )  # fmt: skip

    def replied(self, job: Job, succeeded: bool, value: Any) -> None:
        """A worker finished a job; `value` is the reply, or the error text."""
        self._building -= job.stage == "build"
        if not succeeded:
            self._failed(job, Status.run_error, value)
        elif job.stage == "build":
            self._built(job.index, value)
        elif job.stage == "prepare":
            self._prepared, self._answer = True, value
        elif job.stage == "calibrate" and isinstance(value, str):
            self.impossible = value
        elif job.stage == "calibrate":
            self._calibration_s = value
        elif job.stage == "finals":
            self._took_turns(value)
        else:
            self._ran(job.index, value)

    def died(self, job: Job, death: WorkerDied) -> None:
        """The worker of this job died. A job whose worker was lost is tried once more."""
        self._building -= job.stage == "build"
        if death.lost and job not in self._lost_once:
            self._lost_once.add(job)
            if job.stage == "build":
                self._to_build.appendleft(job.index)
            return
        status = Status.worker_lost if death.lost else Status.crashed
        self._failed(job, status, f"{job.stage}: {death}")

    def timed_out(self, job: Job) -> None:
        """The worker of this job took too long; the caller ends it."""
        self._building -= job.stage == "build"
        limits = {
            "build": self._settings.build_timeout_s,
            "prepare": self._settings.reference_timeout_s,
        }
        limit = limits.get(job.stage, self._settings.run_timeout_s)
        self._failed(job, Status.timeout, f"{job.stage}: took longer than {limit:g} s")

    def runner_replaced(self) -> None:
        """The runner is a new process: it must be told the reference again."""
        self._prepared = False

    def _failed(self, job: Job, status: Status, error: str) -> None:
        """Records a failed job; if it was for the whole task, no candidate can be measured."""
        indices = [job.index]
        if job.stage in ("prepare", "calibrate", "finals"):
            done = self._results.keys() | self._left_behind
            indices = [i for i in range(len(self._candidates)) if i not in done]
            self._to_build.clear()
        for index in indices:
            self._finish(index, self._base(index, status, error))

    def _built(self, index: int, reply: BuildReply) -> None:
        if index in self._results:
            return
        self._to_run[index] = reply
        if reply.status != Status.ok:
            self._finish(index, self._base(index, reply.status, reply.error))
            return
        known = None if self._finals else self._codes.get(reply.code_hash)
        if known is not None:
            self._finish(index, self._as_known(index, known))
        elif not self._finals and reply.code_hash in self._equal:
            self._equal[reply.code_hash].append(index)
            self._waiting[index] = self._to_run.pop(index)
        elif reply.code_hash:
            self._equal[reply.code_hash] = []

    def _choose(self, limit: int) -> None:
        """Leave behind what is not to run; all that can be built is.

        Places of candidates that were refused are free; one whose code is worse than its schedule
        promised gives way to a better one.
        """
        self._limit = None
        taken = {i for i, r in self._results.items() if i < limit and r.status != Status.unfit}
        taken.update(i for i in self._waiting if i < limit)
        ranked = sorted(self._to_run, key=lambda i: (-self._promise(i), i))
        run = [i for i in ranked if i < limit]
        others = [i for i in ranked if i >= limit]
        free = max(0, limit - len(taken) - len(run))
        run, others = run + others[:free], others[free:]
        for weak in [i for i in reversed(run) if self._to_run[i].outlook < 1]:
            if others and self._promise(others[0]) > self._promise(weak):
                run[run.index(weak)] = others.pop(0)
        for index in [i for i in ranked if i not in run]:
            reply = self._to_run.pop(index)
            equals = self._equal.pop(reply.code_hash, [])
            self._left_behind.update((index, *equals))
            for other in equals:
                del self._waiting[other]

    def _promise(self, index: int) -> float:
        """What the model believed, corrected by what the code says."""
        return max(0.0, self._candidates[index].predicted_score) * self._to_run[index].outlook

    def _ran(self, index: int, reply: RunReply) -> None:
        self.tainted = reply.tainted
        if reply.status == Status.worker_lost and Job("run", index) not in self._lost_once:
            self._lost_once.add(Job("run", index))
            return  # a new runner tries it once more
        result = replace(
            self._base(index, reply.status, reply.error), max_rel_error=reply.max_rel_error
        )
        if reply.status == Status.ok:
            latency = quantile(reply.samples, 0.5)
            self._best_s = min(self._best_s, latency)
            result = replace(
                result,
                latency_s=latency,
                latency_samples=reply.samples,
                latency_spread=spread(reply.samples),
            )
        self._finish(index, result)

    def _took_turns(self, replies: Sequence[RunReply]) -> None:
        """Latencies of finalists; see `tilework.measure.turns.latencies`."""
        pairs = list(zip(sorted(self._to_run), replies, strict=True))
        turns = {i: Turns(r.samples, r.disturbed) for i, r in pairs if r.status == Status.ok}
        latency_of = dict(zip(turns, latencies(list(turns.values())), strict=True))
        for index, reply in pairs:
            result = self._base(index, reply.status, reply.error)
            if index in turns:
                samples = turns[index].good or turns[index].seconds
                result = replace(
                    result,
                    latency_s=latency_of[index],
                    latency_samples=samples,
                    latency_spread=spread(samples),
                )
            self._finish(index, replace(result, max_rel_error=reply.max_rel_error))
        self.tainted = any(reply.tainted for reply in replies)

    def _as_known(self, index: int, known: Measured) -> Measured:
        """The result of a candidate whose code is that of a measured one."""
        built = self._to_run[index]
        return replace(
            known,
            candidate=self._candidates[index],
            build_s=built.build_s,
            calibration_s=self._calibration_s,
        )

    def _base(self, index: int, status: Status, error: str) -> Measured:
        built = self._to_run.get(index, BuildReply(status))
        return Measured(
            self._candidates[index], status, shorten(error), calibration_s=self._calibration_s,
            build_s=built.build_s, code_hash=built.code_hash, facts=built.facts,
            compiler=built.compiler,
        )  # fmt: skip

    def _finish(self, index: int, result: Measured) -> None:
        self._to_run.pop(index, None)
        if index in self._results:
            return
        self._results[index] = result
        self.log.append(result)
        if self._finals:
            return
        again = result.status == Status.worker_lost  # says nothing about its equals
        if result.code_hash and not again:
            self._codes[result.code_hash] = result
        for other in self._equal.pop(result.code_hash, ()):
            self._to_run[other] = self._waiting.pop(other)
            if not again:
                self._finish(other, self._as_known(other, result))

    @property
    def calibration_s(self) -> float | None:
        """Time of the calibration loop before the first kernel; None if there was none."""
        return self._calibration_s
