"""What the rounds of a run have come to: trials, best latencies, failures, drift."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.measure.drift import drift
from tilework.record import History, Purpose, Record, best_of
from tilework.search.budget import Budget
from tilework.search.failures import TaskFailure, task_failure
from tilework.search.options import TuningError
from tilework.search.past import PastRound, best_s_of, in_turn, ok_of, past_rounds, trials_of
from tilework.search.policy import SketchPolicy
from tilework.search.report import Round, round_metrics
from tilework.search.run import TuningRun
from tilework.search.scheduler import TaskScheduler

HOPELESS_TRIALS = 32
"""A run in which this many candidates, and no other, have all failed ends with an error."""


class Ledger:
    """Counts rounds as they are kept, and those that a history holds already.

    Args:
        run: whose rounds.
        policies: of each task.
        history: of all records.
        scheduler: is told what came of each round.
        budget: is told what was spent.

    Attributes:
        budget: see there; runs may share one.
        rounds: that the run has kept; the number of the next one.
        failures: tasks that ended without a valid candidate, by index.
        calibrations: how fast the machine was at the begin of each round, in seconds.
    """

    def __init__(
        self,
        run: TuningRun,
        policies: Sequence[SketchPolicy],
        history: History,
        scheduler: TaskScheduler,
        budget: Budget,
    ) -> None:
        self._run, self._policies, self._history = run, policies, history
        self._scheduler, self.budget = scheduler, budget
        self.rounds = self._refused = 0
        self.failures: dict[int, TaskFailure] = {}
        self.calibrations: list[float] = []

    def restore(self) -> None:
        """Take over what the history knows: what other runs found, then this run's own rounds."""

        def order(one: PastRound) -> tuple[bool, int, str]:
            own = one.run_id == self._run.run_id
            return (own, one.number, one.writer) if own else (own, 0, "")

        spent = []
        for one in sorted(past_rounds(self._policies, self._history), key=order):
            if one.run_id != self._run.run_id:
                if not one.final and one.joined:
                    trials, ok = trials_of(one.records), ok_of(one.joined)
                    self._scheduler.credit(one.index, trials, ok, best_s_of(one.joined))
            elif one.final:
                self.rounds = max(self.rounds, one.number + 1)
            else:
                self.count(one.index, one.number, one.records)
                readings = [r.calibration_s for r in one.records if r.calibration_s is not None]
                self.calibrations += readings[:1]
                spent.append(one)
        for times in in_turn(spent):
            self.budget.restore_time(times)
        for index, policy in enumerate(self._policies):
            best = best_of(policy.recorded(self._history))
            if best is not None and best.latency_s is not None and best.purpose == Purpose.final:
                self._scheduler.final(index, best.latency_s)

    def count(self, index: int, number: int, records: Sequence[Record]) -> None:
        """A round is in the history: count it."""
        state = self._scheduler.states[index]
        joined = self._policies[index].subject.joined(records)
        best, trials = best_s_of(joined), trials_of(records)
        self.budget.spend(trials, improved=best < state.best_s)
        self._scheduler.update(index, trials, ok_of(joined), best)
        self.rounds = max(self.rounds, number + 1)
        self._refused += len(records) - trials
        if not trials:  # a run whose rounds measure nothing would not end
            self._scheduler.retire(index, "all candidates of a round were refused when built")
        if state.retired and not state.ok:
            known = self._policies[index].known(self._history)
            failed = (*known.records, *known.refused)
            desc = self._policies[index].task.desc
            self.failures[index] = task_failure(index, desc, failed, self._run.reproduce)

    def round_of(
        self, number: int, index: int, records: Sequence[Record], before_s: float
    ) -> Round:
        """A round that was kept, for whoever watches the run."""
        readings = [r.calibration_s for r in records if r.calibration_s is not None]
        off = drift(readings[0], self.calibrations) if readings else 0.0
        self.calibrations += readings[:1]
        return Round(
            number,
            index,
            tuple(records),
            before_s,
            self._scheduler.states[index].best_s,
            self._scheduler.estimated_total_s(),
            self.budget.trials,
            self.budget.elapsed_s,
            round_metrics(self._policies[index].subject.joined(records)),
            drift=off,
        )

    def check_hope(self, least: int = HOPELESS_TRIALS) -> None:
        """Check that not all that the run has tried has failed.

        Args:
            least: so many candidates must have been tried before that is said.

        Raises:
            TuningError: all have failed; the message gives the causes.
        """
        states = self._scheduler.states
        trials = sum(state.trials for state in states) + self._refused
        if any(state.ok for state in states) or trials < least or not self.failures:
            return
        lines = "\n".join(map(str, self.failures.values()))
        raise TuningError(
            f"tuning stops: all {trials} candidates so far failed\n{lines}\n"
            "mend the first cause, or check the machine with `tilework doctor`"
        )
