"""What a run has spent, and what it may still spend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import pairwise

from tilework.frozen import frozen
from tilework.search.options import TuningOptions

LONGEST_GAP_S = 60.0
"""A longer time between two rounds of a restored run is taken for an interruption."""

CLOSING = 0.1
"""Share of a run that ends it: steps of a coordinate descent from what is fastest."""

FEW = 3
"""Candidates of the first round of a task that hardly matters."""


@frozen
class Goal:
    """What a run has spent when it is over, all of its starts together; None: no such limit.

    Attributes:
        trials: candidates measured.
        seconds: time taken.
    """

    trials: int | None = None
    seconds: float | None = None

    @staticmethod
    def of(options: TuningOptions) -> Goal:
        """What the options allow from nothing on."""
        return Goal(options.num_measure_trials, options.seconds)

    def beyond(self, trials: int, seconds: float) -> Goal:
        """As much again, for a run that has spent so much already."""
        return Goal(
            None if self.trials is None else self.trials + trials,
            None if self.seconds is None else self.seconds + seconds,
        )


class Budget:
    """Trials and seconds of one run.

    Args:
        options: sizes of rounds, when to stop early, and limits.
        tasks: number of tasks that share them.
        clock: seconds since some moment.

    Attributes:
        goal: the limits; another one may be put in its place.
        trials: candidates measured by the run, before an interruption too.
        stale_trials: of these, the ones since the last improvement of any task.
    """

    def __init__(
        self,
        options: TuningOptions,
        tasks: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.goal = Goal.of(options)
        self.trials = 0
        self.stale_trials = 0
        self._tasks = tasks
        self._clock = clock
        self._began = self._step_began = clock()
        self._restored_s = 0.0
        self._seconds_per_trial = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds that the run has taken, restored rounds included, interruptions not."""
        return self._restored_s + self._clock() - self._began

    def restore_time(self, rounds_ended: Iterable[datetime]) -> None:
        """Count the time that rounds of one earlier start took, from when each was committed.

        Rounds of several machines that worked at once are told one machine after the other.
        """
        times = sorted(rounds_ended)
        gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
        self._restored_s += sum(gap for gap in gaps if gap <= LONGEST_GAP_S)

    def begin_step(self) -> None:
        """A round begins."""
        self._step_began = self._clock()

    def end_step(self, trials: int) -> None:
        """The round is over: how long its trials took tells how many still fit."""
        if trials:
            pace = (self._clock() - self._step_began) / trials
            known = self._seconds_per_trial
            self._seconds_per_trial = pace if known == 0 else 0.7 * known + 0.3 * pace

    def spend(self, trials: int, improved: bool) -> None:
        """Count a round's trials."""
        self.trials += trials
        self.stale_trials = 0 if improved else self.stale_trials + trials

    @property
    def closing(self) -> bool:
        """Whether the last tenth of the trials or of the seconds has begun."""
        goal, share = self.goal, 0.0
        if goal.trials:
            share = self.trials / goal.trials
        if goal.seconds:
            share = max(share, self.elapsed_s / goal.seconds)
        return share >= 1 - CLOSING

    def exhausted(self) -> str:
        """Why the run may not begin another round; empty if it may."""
        goal = self.goal
        if goal.trials is not None and self.trials >= goal.trials:
            return f"{self.trials} trials are measured"
        if goal.seconds is not None:
            left = goal.seconds - self.elapsed_s
            if left <= max(0.0, 2 * self._seconds_per_trial):
                return f"the {goal.seconds:g} seconds are used up"
        limit = self.options.early_stopping
        if limit is not None and self.stale_trials >= limit:
            return f"no task improved in {self.stale_trials} trials"
        return ""

    def round_size(self, first: bool, negligible: bool = False, each: int = 1) -> int:
        """Candidates of the next round: what the options say, or what the limits still allow.

        Args:
            first: whether it is the first round of its task.
            negligible: whether that task hardly matters: a first round of a few candidates does.
            each: trials that a candidate takes; the last one may exceed the limit.
        """
        options, goal = self.options, self.goal
        size = options.first_round if first else options.num_measures_per_round
        if first and negligible:
            size = min(size, FEW)
        if goal.trials is not None:
            fair = max(1, goal.trials // self._tasks)
            size = min(size, fair // each, (goal.trials - self.trials) // each)
        if goal.seconds is not None and self._seconds_per_trial > 0:
            left = goal.seconds - self.elapsed_s
            size = min(size, max(2, int(left / self._seconds_per_trial) // each))
        return max(1, size)
