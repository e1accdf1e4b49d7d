"""Budgets of a tuning run, and the effort of one proposal step."""

from __future__ import annotations

from dataclasses import field

from tilework.errors import TileworkError
from tilework.frozen import frozen


class TuningError(TileworkError):
    """A tuning run that cannot start or cannot go on."""


@frozen
class PolicyParams:
    """How hard one proposal step searches, and how its batch is composed.

    Attributes:
        population: candidates sampled at the start of a step, and children per generation.
        generations: rounds of crossover and mutation.
        keep: best candidates that the batch is chosen from, per candidate of the batch.
        measured_share: share of the population given to the best measured candidates.
        neighbours: single-decision changes scored around each of the best measured candidates.
        mutation, crossover: chance that a child is mutated; that it has two parents.
        immigrants: share of fresh random samples among the children.
        eps_greedy: share of the batch taken at random.
        near_share: share of the batch taken from these neighbours alone.
        draft_share: share of the batch taken by the draft model alone, while records are few.
        draft_weight: valid records of a task at which the learned model's word begins to weigh
            more than the draft's; 0 leaves the draft out altogether.
        diversity: how much a candidate loses for resembling one already in the batch.
        hopeless: random picks drafted slower than this many times the best draft are left out.
        guests: best schedules of other targets and of alike workloads in a task's first batch, at
            most, and at most half of it; see `tilework.travel`.
    """

    population: int = 1280
    generations: int = 4
    keep: int = 8
    measured_share: float = 0.05
    neighbours: int = 96
    mutation: float = 0.85
    crossover: float = 0.4
    immigrants: float = 0.1
    eps_greedy: float = 0.05
    near_share: float = 0.4
    draft_share: float = 0.3
    draft_weight: float = 8.0
    diversity: float = 0.7
    hopeless: float = 6.0
    guests: int = 6


@frozen
class TuningOptions:
    """What a run may spend. The first budget that is used up ends it.

    Attributes:
        num_measure_trials: candidates measured in all, by this run; None for no limit.
        num_measures_per_round: candidates of one round of one task.
        early_stopping: trials without any improvement of any task after which the run ends.
        per_task_early_stopping: the same for one task, which then gets no more trials.
        seconds: wall-clock budget of the tuning loop; None for no limit.
        warmup_measures: candidates of a task's first round; None: a full round.
        min_share: a task predicted to take a smaller share of the network's time gets only a few
            candidates in its first round.
        min_gain: the run ends when the gain predicted for the next round falls below this share
            of the network's latency; 0 for never.
        finalists: candidates of each task that are timed in turns before one is called the best;
            below 2: none.
        policy: effort of one proposal step.
    """

    num_measure_trials: int | None = None
    num_measures_per_round: int = 64
    early_stopping: int | None = None
    per_task_early_stopping: int | None = None
    seconds: float | None = None
    warmup_measures: int | None = None
    min_share: float = 0.0
    min_gain: float = 0.0
    finalists: int = 4
    policy: PolicyParams = field(default_factory=PolicyParams)

    def __post_init__(self) -> None:
        if self.num_measure_trials is None and self.seconds is None:
            raise TuningError(
                "a tuning run needs a budget: give num_measure_trials, or seconds, or both"
            )
        if self.num_measure_trials is not None and self.num_measure_trials < 0:
            raise TuningError(
                f"num_measure_trials must not be negative: {self.num_measure_trials}"
            )
        for name in ("num_measures_per_round", "warmup_measures"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TuningError(f"{name} must be at least 1, not {value}")
        if self.seconds is not None and self.seconds <= 0:
            raise TuningError(f"seconds must be positive, not {self.seconds}")
        if not 0 <= self.min_gain < 1:
            raise TuningError(
                f"min_gain is a share of the network's latency from 0 to 1, not {self.min_gain}"
            )

    @property
    def first_round(self) -> int:
        """Candidates of a task's first round."""
        return min(
            self.warmup_measures or self.num_measures_per_round, self.num_measures_per_round
        )


EFFORTS: dict[str, TuningOptions] = {
    "draft": TuningOptions(
        num_measure_trials=320,
        num_measures_per_round=8,
        seconds=37,
        min_share=0.006,
        finalists=3,
        policy=PolicyParams(population=448, generations=2, neighbours=48),
    ),
    "quick": TuningOptions(
        seconds=660,
        num_measures_per_round=32,
        warmup_measures=16,
        min_share=0.002,
        per_task_early_stopping=512,
        min_gain=0.0005,
        policy=PolicyParams(population=832, generations=3),
    ),
    "full": TuningOptions(
        seconds=3300,
        num_measures_per_round=64,
        warmup_measures=32,
        per_task_early_stopping=1200,
        min_gain=0.0001,
        finalists=6,
        policy=PolicyParams(population=1920),
    ),
}
"""Named budgets: under a minute, at most 15 minutes, up to an hour for one network."""
