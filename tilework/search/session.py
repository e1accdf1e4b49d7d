"""One tuning run of several tasks, as steps that a caller drives one by one.

    session = TuningSession(TuningRun(tasks, options, run_id="..."), history)
    while (index := session.next_task()) is not None:
        candidates = session.propose(index)
        if candidates:
            measured = session.measure(index, candidates, measurer)
            session.commit(index, measured)
            session.refit()
    while (index := session.next_final()) is not None:
        session.commit_final(index, session.measure_final(index, measurer))

The session keeps nothing that the history does not: a session made with the run id of an
interrupted one goes on after the last round that was committed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tilework.measure.candidates import Candidate, Measured
from tilework.measure.drift import drift, drifted
from tilework.model import CostModel, XGBModel
from tilework.record import Purpose, Record, RecordLog, best_of, new_writer
from tilework.search.budget import Budget
from tilework.search.corpus import keep_workloads
from tilework.search.failures import TaskFailure, check_hope, task_failure
from tilework.search.finals import (
    HeldFinals,
    as_candidates,
    finalists,
)
from tilework.search.learning import Learning
from tilework.search.past import PastRound, best_s_of, in_turn, ok_of, past_rounds, trials_of
from tilework.search.policy import SketchPolicy
from tilework.search.protocol import MeasurerLike, Task, TimesFinals
from tilework.search.report import Round, TaskRow, TuneResult, round_metrics, task_rows
from tilework.search.run import TuningRun
from tilework.search.scheduler import TaskScheduler
from tilework.search.start import champion
from tilework.travel.likeness import Shape, shape_of_dag


class TuningSession:
    """See the module's text.

    Args:
        run: what is tuned, and how.
        history: read for what is known, appended to one round at a time.
        model: cost model; if None, boosted trees that go on from the history's champion
            (`tilework.search.start`), or begin with nothing.
    """

    def __init__(self, run: TuningRun, history: RecordLog, model: CostModel | None = None) -> None:
        self.run, self.history, self.tasks = run, history, list(run.tasks)
        self.weights, self._networks = run.weight_of_each(), run.network_of_each()
        self.budget = Budget(run.options, len(self.tasks), run.clock)
        spaces = [run.space_of(task) for task in self.tasks]
        if model is None:
            model = champion(history, self.tasks[0].target, spaces[0], run.seed)
        self.model: CostModel = XGBModel(run.seed) if model is None else model
        self._writer = new_writer()
        self._policies = [
            SketchPolicy(run.scope(task, space), self.model)
            for task, space in zip(self.tasks, spaces, strict=True)
        ]
        drafts = [policy.drafts.untuned_s for policy in self._policies]
        self.scheduler = TaskScheduler(self.weights, drafts, run.options, _shapes(self._policies))
        self._rounds = self._refused = self._size = 0
        self._stopped = ""
        self._failures: dict[int, TaskFailure] = {}
        self._calibrations: list[float] = []
        self._held = HeldFinals()
        self._learning = Learning(self.model, self._policies, history, run.warm)
        self._restore()
        self.refit()

    # --- the steps ---------------------------------------------------------------------------

    def next_task(self) -> int | None:
        """Index of the task that gets the next round; None when the run is done.

        Raises:
            TuningError: every candidate of the run has failed; the message gives the causes.
        """
        self._stopped = self._stopped or self.budget.exhausted()
        if self._stopped:
            return None
        index = self.scheduler.next()
        if index is None:
            check_hope(self.scheduler.states, self._refused, self.failures, least=1)
            live = any(not state.retired for state in self.scheduler.states)
            self._stopped = "no task promises enough" if live else "every task is done"
        return index

    def propose(self, index: int) -> list[Candidate]:
        """The candidates of a task's next round; empty retires the task: nothing new is left."""
        self.budget.begin_step()
        first = self.scheduler.states[index].rounds == 0
        policy = self._policies[index]
        each = len(policy.subject.tasks)
        size = self.budget.round_size(first, self.scheduler.negligible(index), each)
        descend = not first and self.budget.closing
        reserves = size * (self.run.build_factor - 1) if each == 1 else 0
        candidates = policy.propose(self.history, size, descend=descend, reserves=reserves)
        self._size = size
        if not candidates:
            self.scheduler.retire(index, "every schedule found is measured")
        return candidates

    def measure(
        self, index: int, candidates: list[Candidate], measurer: MeasurerLike
    ) -> list[Measured]:
        """Measure a task's candidates."""
        best = self.scheduler.states[index].best_s
        known = best if math.isfinite(best) else None
        limit = None if self.run.build_factor == 1 else self._size
        return self._policies[index].subject.measure(measurer, candidates, known, limit)

    def commit(self, index: int, measured: Sequence[Measured]) -> Round:
        """Keep a round: first its records in the history, then the run's counters.

        Raises:
            TuningError: the whole run has measured nothing but failures.
        """
        number = self._rounds
        records = self._records(index, measured, Purpose.search)
        before = self.scheduler.states[index].best_s
        keep_workloads(self.history, self._policies[index].subject.tasks)
        self.history.append(records)
        self._count(index, number, records)
        self.budget.end_step(trials_of(records))
        self._learning.note(index)
        check_hope(self.scheduler.states, self._refused, self.failures)
        return self._round(number, index, records, before)

    def next_final(self) -> int | None:
        """Index of the next task whose fastest candidates should be timed in turns; None: done.

        The heaviest task comes first. Tasks that hardly matter have none, and with a budget in
        seconds finals end after a share of it.
        """
        if not self._held.in_time(self.budget.elapsed_s, self.budget.options.seconds):
            return None
        shares = self.scheduler.shares()
        for index in sorted(range(len(self.tasks)), key=lambda i: (-shares[i], i)):
            if self._held.done(index) or self.scheduler.negligible(index):
                continue
            if self._finalists(index):
                return index
        return None

    def measure_final(self, index: int, measurer: TimesFinals) -> list[Measured]:
        """Time a task's finalists in turns."""
        self._held.hold(index)
        finalists = as_candidates(self._finalists(index))
        return self._policies[index].subject.finals(measurer, finalists)

    def commit_final(self, index: int, measured: Sequence[Measured]) -> Round | None:
        """Keep the verdict of finals; None if there is none, since fewer than two could be timed.

        Finals cost no trials: nothing new was measured. Where they are far off from what the
        finalists' own records say, they were disturbed: they are held once more, and what comes
        then counts, and is told if it is as far off.
        """
        subject = self._policies[index].subject
        judged = subject.judged(measured)
        if not self._held.counts(index, self._finalists(index), judged):
            return None
        if sum(one.latency_s is not None for one in judged) < 2:
            return None
        number, before = self._rounds, self.scheduler.states[index].best_s
        records = self._records(index, subject.timed(measured), Purpose.final)
        self.history.append(records)
        self._rounds = number + 1
        self.scheduler.final(index, best_s_of(subject.joined(records)))
        return replace(self._round(number, index, records, before), final=True, metrics={})

    def _records(self, index: int, measured: Sequence[Measured], purpose: Purpose) -> list[Record]:
        """The records of this run's next round."""
        policy = self._policies[index]
        return policy.subject.records(
            measured,
            run_id=self.run.run_id,
            round=self._rounds,
            network=self._networks[index],
            purpose=purpose,
            writer=self._writer,
            device=policy.device,
        )

    def _finalists(self, index: int) -> list[Record]:
        found = self._policies[index].recorded(self.history)
        return finalists(found, self.budget.options.finalists)

    def _round(self, number: int, index: int, records: Sequence[Record], before_s: float) -> Round:
        readings = [r.calibration_s for r in records if r.calibration_s is not None]
        off = drift(readings[0], self._calibrations) if readings else 0.0
        self._calibrations += readings[:1]
        return Round(
            number,
            index,
            tuple(records),
            before_s,
            self.scheduler.states[index].best_s,
            self.scheduler.estimated_total_s(),
            self.budget.trials,
            self.budget.elapsed_s,
            round_metrics(self._policies[index].subject.joined(records)),
            drift=off,
        )

    def refit(self) -> None:
        """Let the model learn from the records that it has not seen.

        What it failed to learn, it is given again the next time.
        """
        self._learning.refit()

    # --- views -------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether `next_task` would give None."""
        return bool(self._stopped or self.budget.exhausted()) or self.scheduler.next() is None

    @property
    def measured(self) -> list[Task]:
        """The tasks that records are of: of a family, those at its typical points."""
        return [task for policy in self._policies for task in policy.subject.tasks]

    def records(self, index: int) -> list[Record]:
        """All records of a task on its device; of a family, one for each candidate."""
        policy = self._policies[index]
        return policy.subject.joined(policy.subject.of(self.history, policy.device))

    @property
    def rounds(self) -> int:
        """Rounds that this run has committed; the number of the next one."""
        return self._rounds

    @property
    def failures(self) -> tuple[TaskFailure, ...]:
        """Tasks that ended without a valid candidate."""
        return tuple(self._failures.values())

    def stop(self, reason: str) -> None:
        """End the run before its next round."""
        self._stopped = reason

    def summary(self) -> tuple[TaskRow, ...]:
        """The task table."""
        flops = [policy.subject.flops for policy in self._policies]
        return task_rows(self.tasks, self.weights, self.scheduler.states, flops)

    def result(self) -> TuneResult:
        """What came of the run so far."""
        best = tuple(p.subject.best(self.history, p.device) for p in self._policies)
        return TuneResult(
            run_id=self.run.run_id,
            rows=self.summary(),
            best=best,
            estimated_total_s=self.scheduler.estimated_total_s(),
            complete=all(math.isfinite(state.best_s) for state in self.scheduler.states),
            trials=self.budget.trials,
            rounds=self._rounds,
            elapsed_s=self.budget.elapsed_s,
            stopped=self._stopped or self.budget.exhausted() or "not finished",
            failures=self.failures,
            finals=sum(r is not None and r.purpose == Purpose.final for r in best),
            drifted_rounds=drifted(self._calibrations),
            disturbed=tuple(sorted(self._held.off.items())),
        )

    # --- counters ----------------------------------------------------------------------------

    def _restore(self) -> None:
        """Take over what the history knows: what other runs found, then this run's own rounds."""

        def order(one: PastRound) -> tuple[bool, int, str]:
            own = one.run_id == self.run.run_id
            return (own, one.number, one.writer) if own else (own, 0, "")

        spent = []
        for one in sorted(past_rounds(self._policies, self.history), key=order):
            if one.run_id != self.run.run_id:
                if not one.final and one.joined:
                    trials, ok = trials_of(one.records), ok_of(one.joined)
                    self.scheduler.credit(one.index, trials, ok, best_s_of(one.joined))
            elif one.final:
                self._rounds = max(self._rounds, one.number + 1)
            else:
                self._count(one.index, one.number, one.records)
                readings = [r.calibration_s for r in one.records if r.calibration_s is not None]
                self._calibrations += readings[:1]
                spent.append(one)
        for times in in_turn(spent):
            self.budget.restore_time(times)
        for index, policy in enumerate(self._policies):
            best = best_of(policy.recorded(self.history))
            if best is not None and best.latency_s is not None and best.purpose == Purpose.final:
                self.scheduler.final(index, best.latency_s)

    def _count(self, index: int, number: int, records: Sequence[Record]) -> None:
        """A round is in the history: count it."""
        state = self.scheduler.states[index]
        joined = self._policies[index].subject.joined(records)
        best, trials = best_s_of(joined), trials_of(records)
        self.budget.spend(trials, improved=best < state.best_s)
        self.scheduler.update(index, trials, ok_of(joined), best)
        self._rounds = max(self._rounds, number + 1)
        self._refused += len(records) - trials
        if not trials:  # a run whose rounds measure nothing would not end
            self.scheduler.retire(index, "all candidates of a round were refused when built")
        if state.retired and not state.ok:
            known = self._policies[index].known(self.history)
            failed = (*known.records, *known.refused)
            desc = self.tasks[index].desc
            self._failures[index] = task_failure(index, desc, failed, self.run.reproduce)


def _shapes(policies: Sequence[SketchPolicy]) -> list[Shape | None]:
    """What the tasks look like; those of the first one's target alone are compared."""
    first = str(policies[0].task.target)
    return [
        shape_of_dag(p.subject.tasks[-1].compute_dag)
        if str(p.task.target) == first and p.subject.tasks
        else None
        for p in policies
    ]
