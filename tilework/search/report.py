"""What a tuning run reports: the task table, a round's result, the run's result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from tilework.frozen import frozen
from tilework.model.metrics import ranking_metrics
from tilework.record import Record
from tilework.search.failures import TaskFailure
from tilework.search.protocol import Task
from tilework.search.scheduler import TaskState


@frozen
class TaskRow:
    """One line of the task table.

    Attributes:
        id: index of the task.
        desc: readable name.
        weight: appearances in the network.
        latency_ms: best measured latency; None if no candidate was valid.
        gflops: speed at that latency, in 1e9 operations per second; None likewise.
        trials: candidates measured, in this run and before.
        draft_ms: latency of the schedule that an untuned compile would choose, as predicted.
        note: why the task gets no more trials; empty while it does.
    """

    id: int
    desc: str
    weight: float
    latency_ms: float | None
    gflops: float | None
    trials: int
    draft_ms: float | None
    note: str = ""


@frozen
class Round:
    """A finished round: its records are kept.

    Attributes:
        number: counts the rounds of the run, all tasks together, from 0.
        task_index: the task that was measured.
        best_before_s, best_s: best latency of the task before and after; inf if there is none.
        estimated_total_s: weighted sum of the tasks' latencies after the round.
        trials, elapsed_s: spent by the run so far.
        metrics: how well the candidates were ranked, see `tilework.model.metrics`.
        final: whether finalists were timed in turns, and not new candidates.
        drift: how much slower the machine was than usual in this run, by its calibration: 0.1 for
            10 %; see `tilework.measure.drift`.
    """

    number: int
    task_index: int
    records: tuple[Record, ...]
    best_before_s: float
    best_s: float
    estimated_total_s: float
    trials: int
    elapsed_s: float
    metrics: dict[str, float] = field(default_factory=dict)
    final: bool = False
    drift: float = 0.0


@frozen
class TuneResult:
    """What came of a run.

    Attributes:
        run_id: the run's records carry it.
        rows: the task table.
        best: best record of each task; None where no candidate was valid.
        estimated_total_s: weighted sum of latencies; tasks without one count as drafted.
        complete: whether every task has a measured latency.
        trials, rounds, elapsed_s: spent by the run, restored rounds included.
        stopped: why the run ended.
        failures: tasks none of whose candidates was valid.
        finals: tasks whose best was chosen by finals.
        drifted_rounds: rounds measured while the machine ran noticeably faster or slower than
            usual in this run.
        disturbed: tasks whose finals were far off from their own records, and by which factor.
    """

    run_id: str
    rows: tuple[TaskRow, ...]
    best: tuple[Record | None, ...]
    estimated_total_s: float
    complete: bool
    trials: int
    rounds: int
    elapsed_s: float
    stopped: str
    failures: tuple[TaskFailure, ...] = ()
    finals: int = 0
    drifted_rounds: int = 0
    disturbed: tuple[tuple[int, float], ...] = ()


def task_rows(
    tasks: Sequence[Task],
    weights: Sequence[float],
    states: Sequence[TaskState],
    flops: Sequence[float],
) -> tuple[TaskRow, ...]:
    """The task table; ``flops`` are operations of what the tasks' latencies are of."""
    return tuple(
        TaskRow(
            id=index,
            desc=task.desc,
            weight=weight,
            latency_ms=state.best_s * 1e3 if math.isfinite(state.best_s) else None,
            gflops=work / state.best_s / 1e9 if math.isfinite(state.best_s) else None,
            trials=state.trials,
            draft_ms=state.draft_s * 1e3 if math.isfinite(state.draft_s) else None,
            note=state.retired,
        )
        for index, (task, weight, state, work) in enumerate(
            zip(tasks, weights, states, flops, strict=True)
        )
    )


def round_metrics(records: Sequence[Record]) -> dict[str, float]:
    """How well a round's candidates were ranked; empty when too few are valid."""
    valid = [r for r in records if r.usable and r.predicted_score is not None]
    if len(valid) < 4:
        return {}
    return ranking_metrics([r.predicted_score for r in valid], [r.latency_s for r in valid])
