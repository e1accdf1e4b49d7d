"""The live state of a tuning run, and its stages as plain functions.

A stage takes values and returns values: what is proposed, measured and learnt in a round is handed
on inside `run_round`. Each step is done with patience (`tasks.patience`), so that a disk that is
full for a moment, or a store that is away, costs neither the run nor what it has measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks import goals, starts
from tasks.patience import Result, SearchClock, Tell, patiently
from tasks.plan import SearchPlan
from tasks.report import Progress
from tilework.target.identity import identity_of

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.measure import Measurer
    from tilework.record import Record
    from tilework.search import TuningSession
    from tilework.search.report import Round


class LiveRun:
    """Tasks being tuned: their plan, the store, the search session and the measurer.

    Attributes:
        device: what measures: its own records count.
        start: the cost model that it began with.
        resumed_rounds: rounds of this run that the store held when it was opened.
    """

    def __init__(
        self, plan: SearchPlan, store: RecordStore, measurer: Measurer, tell: Tell
    ) -> None:
        """Open the run; rounds of its id that the store holds are taken as done.

        Args:
            tell: gets a warning each time that something has to be tried again.
        """
        from storage.packages import knowledge
        from tilework.measure.records import from_records
        from tilework.model import XGBModel
        from tilework.search import TuningRun, TuningSession

        self.plan = plan
        self.target = measurer.target
        self.device = identity_of(self.target)
        self.store = store
        self.measurer = measurer
        self.tell = tell
        self.clock = SearchClock()
        self.start = starts.begin(store, plan, self.target)
        guides = knowledge(packages=plan.packages)
        run = TuningRun(
            plan.tasks,
            plan.options,
            plan.run_id,
            plan.weights,
            plan.seed,
            plan.label,
            clock=self.clock,
            build_factor=measurer.build_factor,
            reproduce=plan.reproduce,
            guides=guides if guides.names else None,
        )
        model = self.start.model or XGBModel(plan.seed)
        self.session: TuningSession = TuningSession(run, store, model)
        for task in self.session.measured:
            records = store.of(task.workload_key, str(task.target), self.device)
            measurer.remember(task.workload_key, from_records(records, task.target))
        self.resumed_rounds = self.session.rounds
        if plan.extend:
            budget = self.session.budget
            begun = goals.began(store, plan.run_id, budget.trials, budget.elapsed_s)
            budget.goal = budget.goal.beyond(*begun)

    def next_task(self) -> int | None:
        """Index of the task that gets the next round; None when the search is over."""
        return self.patiently(self.session.next_task)

    def next_final(self) -> int | None:
        """Index of the next task whose fastest candidates are timed in turns; None: no more."""
        return self.patiently(self.session.next_final)

    def patiently(self, call: Callable[[], Result]) -> Result:
        """The result of a call that is made again while its error may pass; see `tasks.patience`.

        Waiting costs the run none of its seconds.
        """
        return patiently(call, self.tell, sleep=self.clock.wait)

    def progress(self, last: Round | None = None) -> Progress:
        """Where the run stands, after the round ``last``."""
        session = self.session
        result = self.patiently(session.result)
        progress = Progress(
            target=str(self.target),
            rows=result.rows,
            rounds=result.rounds,
            trials=result.trials,
            elapsed_s=result.elapsed_s,
            estimated_total_s=result.estimated_total_s,
            trials_budget=session.budget.goal.trials,
            seconds_budget=session.budget.goal.seconds,
            finals=result.finals,
            drifted_rounds=result.drifted_rounds,
            disturbed=result.disturbed,
        )
        if last is None:
            return progress
        return replace(
            progress,
            current=last.task_index,
            before_s=_finite(last.best_before_s),
            after_s=_finite(last.best_s),
            measured=len(last.records),
            failed=len(_failed(last.records)),
            final=last.final,
            drift=last.drift,
        )


def prepare(plan: SearchPlan, store: RecordStore, measurer: Measurer, tell: Tell) -> LiveRun:
    """Open a run: read what is known of its tasks, and let the cost model learn from it."""
    return patiently(lambda: LiveRun(plan, store, measurer, tell), tell)


def conclude(run: LiveRun) -> None:
    """The run has come to its end: extending it from now on spends another budget."""
    run.patiently(lambda: goals.done(run.store, run.plan.run_id))


def run_round(run: LiveRun, index: int) -> Round | None:
    """One round of a task: propose, measure, store, learn; None if it has no candidate left.

    The round counts as done once its records are in the store, as one file.
    """
    session = run.session
    candidates = run.patiently(lambda: session.propose(index))
    if not candidates:
        return None
    measured = run.patiently(lambda: session.measure(index, candidates, run.measurer))
    finished = run.patiently(lambda: session.commit(index, measured))
    run.patiently(session.refit)
    return finished


def run_final(run: LiveRun, index: int) -> Round | None:
    """Time a task's fastest candidates in turns, and store the verdict; None if there is none."""
    measured = run.patiently(lambda: run.session.measure_final(index, run.measurer))
    return run.patiently(lambda: run.session.commit_final(index, measured))


def _failed(records: Sequence[Record]) -> list[Record]:
    """The records of what was measured in vain; what was refused before is none of them."""
    return [r for r in records if not r.usable and r.purpose != "refused"]


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None
