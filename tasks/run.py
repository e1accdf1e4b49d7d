"""The live state of a tuning run, and the stages of one round as plain functions.

The functions take the run and return small values; whatever is large stays in the run. So the same
functions serve the plain pipeline and Prefect tasks (`tasks.shells`), whose parameters are looked
into and logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.report import Progress

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.network import Extracted
    from tilework.measure import Measurer
    from tilework.measure.candidates import Candidate, Measured
    from tilework.record import Record
    from tilework.search import TuningOptions, TuningSession
    from tilework.search.report import Round


class TuningRun:
    """A network being tuned: its tasks, its store, the search session and the measurer.

    Deliberately not a dataclass: Prefect walks through the fields of those that it is passed.
    """

    def __init__(
        self,
        extracted: Extracted,
        options: TuningOptions,
        store: RecordStore,
        measurer: Measurer,
        *,
        run_id: str,
        seed: int,
        label: str,
        extend: bool = False,
        reproduce: str = "",
    ) -> None:
        """Open the run; rounds of ``run_id`` that the store holds are taken as done.

        Args:
            label: the network's name in the records.
            extend: spend the budget of ``options`` on top of what the run has spent before.
            reproduce: command line that measures a record again, for messages.
        """
        from dataclasses import replace

        from tilework.measure.records import from_records
        from tilework.search import TuningSession

        self.extracted = extracted
        self.target = measurer.target
        self.store = store
        self.measurer = measurer
        self.session: TuningSession = TuningSession(
            extracted.tasks,
            extracted.weights,
            options,
            store,
            run_id=run_id,
            seed=seed,
            network=label,
            build_factor=measurer.build_factor,
            reproduce=reproduce,
        )
        for task in extracted.tasks:
            records = store.of(task.workload_key, str(task.target))
            measurer.remember(task.workload_key, from_records(records, task.target))
        self.resumed_rounds = self.session.rounds
        if extend:
            trials, seconds = options.num_measure_trials, options.seconds
            budget = self.session.budget
            budget.options = replace(
                options,
                num_measure_trials=None if trials is None else trials + budget.trials,
                seconds=None if seconds is None else seconds + budget.elapsed_s,
            )
        self._candidates: list[Candidate] = []
        self._measured: list[Measured] = []

    def next_task(self) -> int | None:
        """Index of the task that gets the next round; None when the search is over."""
        index = self.session.next_task()
        if index is None:
            self._keep_model()
        return index

    def _keep_model(self) -> None:
        """Put the learned model beside the records, with how well it ranked."""
        from tilework.model import XGBModel

        model = self.session.model
        if isinstance(model, XGBModel) and model.trained:
            self.store.keep_model(str(self.session.tasks[0].target), model.to_json())

    def progress(self, last: Round | None = None) -> Progress:
        """Where the run stands, after the round ``last``."""
        session = self.session
        result = session.result()
        return Progress(
            target=str(self.target),
            rows=result.rows,
            rounds=result.rounds,
            trials=result.trials,
            elapsed_s=result.elapsed_s,
            estimated_total_s=result.estimated_total_s,
            trials_budget=session.budget.options.num_measure_trials,
            seconds_budget=session.budget.options.seconds,
            current=None if last is None else last.task_index,
            failed=0 if last is None else len(_failed(last.records)),
            final=last is not None and last.final,
            drift=0.0 if last is None else last.drift,
            settled=result.settled,
            drifted_rounds=result.drifted_rounds,
        )

    def next_final(self) -> int | None:
        """Index of the next task whose fastest candidates are timed in turns; None: no more."""
        return self.session.next_final()


def _failed(records: Sequence[Record]) -> list[Record]:
    """The records of what was measured in vain; what was refused before is none of them."""
    return [r for r in records if not r.usable and r.purpose != "refused"]


def propose(run: TuningRun, index: int, round: int) -> int:
    """Choose the candidates of a task's next round; how many (0: the task has no new ones)."""
    run._candidates = run.session.propose(index)
    return len(run._candidates)


def measure(run: TuningRun, index: int, round: int) -> int:
    """Build, verify and time the proposed candidates; how many ended in status ``ok``."""
    run._measured = run.session.measure(index, run._candidates, run.measurer)
    return sum(one.latency_s is not None for one in run._measured)


def store(run: TuningRun, index: int, round: int) -> Round:
    """Append the round's records to the store as one file; then the round counts as done."""
    return run.session.commit(index, run._measured)


def judge(run: TuningRun, index: int, round: int) -> Round | None:
    """Time a task's fastest candidates in turns, and store the verdict; None if there is none."""
    return run.session.settle(index, run.session.duel(index, run.measurer))


def refit(run: TuningRun, index: int, round: int) -> None:
    """Let the cost model learn from the new records."""
    run.session.refit()
