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
from tilework.measure.drift import drifted
from tilework.model import CostModel, XGBModel
from tilework.record import Purpose, Record, RecordLog, new_writer
from tilework.search.budget import Budget
from tilework.search.corpus import keep_workloads
from tilework.search.failures import TaskFailure
from tilework.search.finals import (
    HeldFinals,
    as_candidates,
    finalists,
)
from tilework.search.learning import Learning
from tilework.search.ledger import Ledger
from tilework.search.past import best_s_of, trials_of
from tilework.search.policy import SketchPolicy
from tilework.search.protocol import MeasurerLike, Task, TimesFinals
from tilework.search.report import Round, TaskRow, TuneResult, task_rows
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
        budget = Budget(run.options, len(self.tasks), run.clock)
        self.ledger = Ledger(run, self._policies, history, self.scheduler, budget)
        self._size = 0
        self._stopped = ""
        self._held = HeldFinals()
        self._learning = Learning(self.model, self._policies, history, run.warm)
        self.ledger.restore()
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
            self.ledger.check_hope(least=1)
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
        number = self.rounds
        records = self._records(index, measured, Purpose.search)
        before = self.scheduler.states[index].best_s
        keep_workloads(self.history, self._policies[index].subject.tasks)
        self.history.append(records)
        self.ledger.count(index, number, records)
        self.budget.end_step(trials_of(records))
        self._learning.note(index)
        self.ledger.check_hope()
        return self.ledger.round_of(number, index, records, before)

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
        number, before = self.rounds, self.scheduler.states[index].best_s
        records = self._records(index, subject.timed(measured), Purpose.final)
        self.history.append(records)
        self.ledger.rounds = number + 1
        self.scheduler.final(index, best_s_of(subject.joined(records)))
        kept = self.ledger.round_of(number, index, records, before)
        return replace(kept, final=True, metrics={})

    def _records(self, index: int, measured: Sequence[Measured], purpose: Purpose) -> list[Record]:
        """The records of this run's next round."""
        policy = self._policies[index]
        return policy.subject.records(
            measured,
            run_id=self.run.run_id,
            round=self.rounds,
            network=self._networks[index],
            purpose=purpose,
            writer=self._writer,
            device=policy.device,
        )

    def _finalists(self, index: int) -> list[Record]:
        recorded = self._policies[index].recorded(self.history)
        return finalists(recorded, self.budget.options.finalists)

    def refit(self) -> None:
        """Let the model learn from the records that it has not seen.

        What it failed to learn, it is given again the next time.
        """
        self._learning.refit()

    # --- views -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """What the run may spend, and has spent."""
        return self.ledger.budget

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
        return self.ledger.rounds

    @property
    def failures(self) -> tuple[TaskFailure, ...]:
        """Tasks that ended without a valid candidate."""
        return tuple(self.ledger.failures.values())

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
            rounds=self.rounds,
            elapsed_s=self.budget.elapsed_s,
            stopped=self._stopped or self.budget.exhausted() or "not finished",
            failures=self.failures,
            finals=sum(r is not None and r.purpose == Purpose.final for r in best),
            drifted_rounds=drifted(self.ledger.calibrations),
            disturbed=tuple(sorted(self._held.off.items())),
        )


def _shapes(policies: Sequence[SketchPolicy]) -> list[Shape | None]:
    """What the tasks look like; those of the first one's target alone are compared."""
    first = str(policies[0].task.target)
    return [
        shape_of_dag(p.subject.tasks[-1].compute_dag)
        if str(p.task.target) == first and p.subject.tasks
        else None
        for p in policies
    ]
