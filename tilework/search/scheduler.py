"""Which task gets the next round: the one whose next round should cut the network's time most.

The gain of a round is estimated from four things: how fast the task has been improving, how much
a task with so few rounds usually still improves, how far it lies above the latency that the draft
model holds possible (scaled by what the other tasks reach of theirs), and how far above what alike
tasks have reached. An estimate halves with every two or so rounds that brought nothing. First
every task gets a round, those with the largest predicted share of the network's time first, so
that a small budget goes to what matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilework.search.options import TuningOptions
from tilework.travel.likeness import Shape, distance

ALPHA = 0.2
"""Weight of the past improvement against the expected one."""
WINDOW = 3
"""Rounds over which the past improvement is averaged."""
STALE = 0.7
"""What remains of the expected gain after each round without improvement."""
ALIKE = 4.0
"""Largest distance (`tilework.travel.likeness`) of tasks that are measured by each other."""
BETA = 1.2
"""A task may well get to so many times the latency that the best of its likes promises.

Two tasks within `ALIKE` differ in latency over drafted latency by a factor of 1.45 (root mean
square; best two of 96 unsearched programs, 51 tasks, four targets), in FLOP/s, which Ansor
compares with a factor of 2, by 1.9. Searches of 9 to 34 such tasks by chance came within 10 % of
all of their bests in 0.95 of the trials (1.5: 0.97, 2: 0.99).
"""
IMPROVED = 0.995
"""A round improved its task if the best latency fell below this share of the old one."""


@dataclass
class TaskState:
    """What the scheduler knows of one task.

    Attributes:
        weight: appearances in the network.
        draft_s: latency that the draft model predicts for the untuned schedule, seconds.
        trials, ok: candidates measured, and of these the valid ones.
        rounds: rounds of measurements.
        latency: best latency in seconds after each round; inf before the first valid candidate.
        stale_rounds, stale_trials: since the last improvement.
        retired: why the task gets no more rounds; empty while it does.
    """

    weight: float
    draft_s: float
    trials: int = 0
    ok: int = 0
    rounds: int = 0
    latency: list[float] = field(default_factory=list)
    stale_rounds: int = 0
    stale_trials: int = 0
    retired: str = ""

    @property
    def best_s(self) -> float:
        """Best latency so far in seconds; inf if no candidate was valid."""
        return self.latency[-1] if self.latency else math.inf


class TaskScheduler:
    """Spends rounds on tasks. Deterministic: ties go to the task that comes first.

    Args:
        weights: appearances of every task in the network.
        drafts_s: latency of every task's untuned schedule by the draft model, seconds; inf if it
            has none.
        options: budgets and thresholds.
        shapes: what every task looks like; None for one that is like no other. All if empty.
    """

    def __init__(
        self,
        weights: Sequence[float],
        drafts_s: Sequence[float],
        options: TuningOptions,
        shapes: Sequence[Shape | None] = (),
    ) -> None:
        self.options = options
        self._alike = [
            [j for j, other in enumerate(shapes) if i != j and _alike(shape, other)]
            for i, shape in enumerate(shapes)
        ] or [[] for _ in weights]
        pairs = zip(weights, drafts_s, strict=True)
        self.states = [TaskState(float(weight), float(draft)) for weight, draft in pairs]
        for state in self.states:
            if not math.isfinite(state.draft_s):
                state.retired = "no valid schedule found"

    # --- events ------------------------------------------------------------------------------

    def update(self, index: int, trials: int, ok: int, best_s: float) -> None:
        """A round of a task is done: ``best_s`` is the best latency of that round, or inf."""
        state = self.states[index]
        before = state.best_s
        state.trials += trials
        state.ok += ok
        state.rounds += 1
        state.latency.append(min(before, best_s))
        if best_s < before * IMPROVED:
            state.stale_rounds = state.stale_trials = 0
        else:
            state.stale_rounds += 1
            state.stale_trials += trials
        limit = self.options.per_task_early_stopping
        if state.ok == 0 and (state.rounds >= 2 or state.trials >= 64):
            state.retired = "no candidate was valid"
        elif limit is not None and state.stale_trials >= limit:
            state.retired = f"no improvement in {state.stale_trials} trials"

    def credit(self, index: int, trials: int, ok: int, best_s: float) -> None:
        """Count a round of an earlier run: it is known, but no sign that the task is stuck."""
        state = self.states[index]
        state.trials += trials
        state.ok += ok
        if ok:
            state.rounds += 1
            state.latency.append(min(state.best_s, best_s))

    def final(self, index: int, best_s: float) -> None:
        """Finals have said what the best latency of a task is: the recorded minimum was luck."""
        state = self.states[index]
        state.latency[-1:] = [best_s]

    def retire(self, index: int, reason: str) -> None:
        """A task gets no more rounds."""
        self.states[index].retired = reason

    # --- decisions ---------------------------------------------------------------------------

    def next(self) -> int | None:
        """The task of the next round; None if no task is worth one."""
        live = [index for index, state in enumerate(self.states) if not state.retired]
        if not live:
            return None
        waiting = self._warm_up(live)
        if waiting is not None:
            return waiting
        gains = self.gains()
        choice = max(live, key=lambda index: (gains[index], -index))
        least = self.options.min_gain
        if least > 0 and gains[choice] < least * self.estimated_total_s():
            return None
        return choice

    def _warm_up(self, live: Sequence[int]) -> int | None:
        """The task without a round that takes the largest share of the network's time."""
        waiting = [index for index in live if self.states[index].rounds == 0]
        shares = self.shares()
        return max(waiting, key=lambda index: (shares[index], -index)) if waiting else None

    def negligible(self, index: int) -> bool:
        """Whether the task's share of the network's time is too small for a full first round."""
        return self.shares()[index] < self.options.min_share

    def gains(self) -> list[float]:
        """Seconds of the network's latency that the next round of each task should save."""
        reach = self._reach()
        return [
            0.0 if s.retired else s.weight * self._gain(s, reach, self._alike_s(i))
            for i, s in enumerate(self.states)
        ]

    def _alike_s(self, index: int) -> float:
        """Latency that a task may reach, told from the best of those that are like it.

        Ansor's term of similarity, ``beta * work / max(work_j / latency_j)``, where work is what
        the draft model predicts and not FLOPs: it knows of borders, strides and memory. Infinite
        where nothing alike is measured.
        """
        others = (self.states[j] for j in self._alike[index])
        ratios = [s.best_s / s.draft_s for s in others if math.isfinite(s.best_s)]
        return BETA * self.states[index].draft_s * min(ratios, default=math.inf)

    def _gain(self, state: TaskState, reach: float, alike_s: float) -> float:
        goal = state.draft_s * reach
        if not math.isfinite(state.best_s):  # nothing valid yet: the draft's word
            return 0.5 * goal * STALE**state.stale_rounds
        best = state.best_s
        size = self.options.num_measures_per_round
        expected = best / max(1.0, state.trials / size)
        expected = max(min(expected, 0.5 * best), 0.25 * (best - goal), best - alike_s)
        expected *= STALE**state.stale_rounds
        return ALPHA * self._past_gain(state) + (1 - ALPHA) * expected

    def _past_gain(self, state: TaskState) -> float:
        """Mean improvement per round over the last rounds, seconds."""
        valid = [latency for latency in state.latency if math.isfinite(latency)]
        recent = valid[-WINDOW - 1 :]
        return (recent[0] - recent[-1]) / (len(recent) - 1) if len(recent) > 1 else 0.0

    def _reach(self) -> float:
        """Latency over drafted latency that a well-tuned task of this network gets to."""
        ratios = [s.best_s / s.draft_s for s in self.states if math.isfinite(s.best_s)]
        return float(np.quantile(ratios, 0.25)) if ratios else 1.0

    # --- views -------------------------------------------------------------------------------

    def shares(self) -> list[float]:
        """Share of the network's time that each task takes, measured or else drafted."""
        reach = self._reach()
        seconds = [
            s.weight * (s.best_s if math.isfinite(s.best_s) else s.draft_s * reach)
            if math.isfinite(s.draft_s)
            else 0.0
            for s in self.states
        ]
        total = sum(seconds)
        return [second / total if total > 0 else 0.0 for second in seconds]

    def estimated_total_s(self) -> float:
        """Weighted sum of the latencies in seconds; tasks without one count as drafted."""
        reach = self._reach()
        return sum(
            s.weight * (s.best_s if math.isfinite(s.best_s) else s.draft_s * reach)
            for s in self.states
            if math.isfinite(s.best_s) or math.isfinite(s.draft_s)
        )

    @property
    def trials(self) -> int:
        """Candidates measured in all."""
        return sum(state.trials for state in self.states)


def _alike(one: Shape | None, other: Shape | None) -> bool:
    return one is not None and other is not None and distance(one, other) <= ALIKE
