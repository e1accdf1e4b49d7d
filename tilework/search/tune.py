"""The tuning loop without a workflow engine: a session driven to its end in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tilework.model import CostModel
from tilework.record import RecordLog
from tilework.search.options import TuningOptions
from tilework.search.protocol import MeasurerLike, Task, TimesFinals
from tilework.search.report import Round, TuneResult
from tilework.search.run import TuningRun
from tilework.search.session import TuningSession

Callback = Callable[[TuningSession, Round], None]
"""Called after every committed round."""


def tune(
    tasks: Sequence[Task],
    weights: Sequence[float] | None,
    options: TuningOptions,
    history: RecordLog,
    measurer: MeasurerLike,
    *,
    run_id: str | None = None,
    model: CostModel | None = None,
    seed: int = 0,
    network: str | Sequence[str] = "",
    callbacks: Sequence[Callback] = (),
    **run_options: Any,
) -> TuneResult:
    """Tune tasks until a budget is used up or nothing is left to gain.

    Ctrl-C ends the run; the finished rounds are in the history and in the result.

    Args:
        tasks: the network's tasks.
        weights: appearances of each; the tasks' own weights if None.
        options: budgets.
        history: read for what is known, appended to one round at a time.
        measurer: measures each round's candidates.
        run_id: the same id goes on with an interrupted run; a new one from the time if None.
        model: cost model; if None, boosted trees that go on from the history's champion.
        seed: of every random choice.
        network: name kept in the records; or one for each task.
        callbacks: called in order after every committed round.
        run_options: further fields of `TuningRun`.

    Raises:
        TuningError: the run has measured nothing but failures.
    """
    run = TuningRun(
        tasks,
        options,
        run_id or datetime.now(UTC).strftime("run-%Y%m%d-%H%M%S-%f"),
        weights,
        seed,
        network,
        **{"build_factor": getattr(measurer, "build_factor", 1), **run_options},
    )
    session = TuningSession(run, history, model)
    try:
        while (index := session.next_task()) is not None:
            finished = run_round(session, index, measurer)
            if finished is not None:
                for callback in callbacks:
                    callback(session, finished)
        for finished in finals(session, measurer):
            for callback in callbacks:
                callback(session, finished)
    except KeyboardInterrupt:
        session.stop("interrupted")
    return session.result()


def finals(session: TuningSession, measurer: MeasurerLike) -> Iterator[Round]:
    """Times each task's fastest candidates in turns, if the measurer can; yields the verdicts."""
    if not isinstance(measurer, TimesFinals):
        return
    while (index := session.next_final()) is not None:
        finished = session.commit_final(index, session.measure_final(index, measurer))
        if finished is not None:
            yield finished


def run_round(session: TuningSession, index: int, measurer: MeasurerLike) -> Round | None:
    """One round of one task; None if the task has no candidate left."""
    candidates = session.propose(index)
    if not candidates:
        return None
    measured = session.measure(index, candidates, measurer)
    finished = session.commit(index, measured)
    session.refit()
    return finished
