"""How long compiling and tuning a network will take, before either has begun.

What is known then is the list of tasks, the size of the weights and the effort; nothing is run for
it. So it is an estimate with a range, and `benchmarks/estimate.py` says how far it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilework.index.extents import most

if TYPE_CHECKING:
    from tilework.search import TuningOptions
    from tilework.task import SearchTask

START_S = 0.3
"""What the first compile of a process imports: LLVM, the models, the packages of records."""

TASK_S, WINDOW_S, VOLUME_S = 0.1, 0.3, 0.6
"""Choosing a schedule and making its code: for products and all that is simpler, for windows over
images, whose bodies are unrolled and whose sketches are many, and for windows over video."""

MEGABYTE_S = 0.01
"""Weights are packed for their tiles, and transformed for Winograd schedules."""

SPREAD = 2.0
"""Factor to both sides: idle fast cores take half of it, busy or slow ones twice as long."""

TRIAL_S, SLOW_TRIAL_S = 0.1, 0.2
"""A trial: to propose, build, check and measure one candidate."""

FINALS = 1.15
"""Finals take up to 15 % of a search's seconds on top (docs/search.md)."""

CHECK_S = 10.0
"""Output check, and the network timed in turns with what it replaces."""


@dataclass(frozen=True)
class Span:
    """Seconds: what is likely, and between which limits."""

    likely: float
    least: float
    most: float


@dataclass(frozen=True)
class Tuning:
    """What a search will take, and how many trials each task gets on average."""

    span: Span
    trials_per_task: float


def compile_time(tasks: Sequence[SearchTask], weight_bytes: float) -> Span | None:
    """Seconds of a compile without the cache, one core.

    Code is made once for each distinct task, however often it is called; of a task, the number of
    axes that its heaviest stage sums over says how long that takes. Constants were fitted to eight
    networks of the zoo and to ONNX models whose times were measured.

    Args:
        tasks: distinct tasks; None is answered if they are not for a CPU: no figures.
        weight_bytes: of the network's constants.
    """
    if any(task.target.kind != "llvm" for task in tasks):
        return None
    likely = START_S + MEGABYTE_S * weight_bytes / 1e6 + sum(map(_task_seconds, tasks))
    return Span(likely, likely / SPREAD, likely * SPREAD)


def _task_seconds(task: SearchTask) -> float:
    axes = max(
        (
            sum(most(axis.extent) > 1 for axis in op.reduce_axes)
            for op in task.compute_dag.compute_ops
        ),
        default=0,
    )
    return TASK_S if axes <= 2 else WINDOW_S if axes == 3 else VOLUME_S


def tuning_time(options: TuningOptions, tasks: int, compiling: Span) -> Tuning:
    """What a search with these options takes until its module is kept.

    Budgets bound it. It is over sooner where no task improves any more, at the earliest when each
    has had its first round.

    Args:
        options: an effort, or a search of one's own.
        tasks: how many share it.
        compiling: of the same network (`compile_time`).
    """
    trials = options.num_measure_trials or float("inf")
    seconds = options.seconds or float("inf")
    likely = min(seconds, trials * TRIAL_S)
    most = min(seconds, trials * SLOW_TRIAL_S)
    first = min(trials, options.first_round * tasks) * TRIAL_S / 2
    least = min(likely, first)
    span = Span(
        FINALS * likely + compiling.likely + CHECK_S,
        least + compiling.least,
        FINALS * most + compiling.most + CHECK_S,
    )
    return Tuning(span, likely / TRIAL_S / max(tasks, 1))
