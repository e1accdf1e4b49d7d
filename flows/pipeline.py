"""The order of a tuning run: one function, whether its stages are plain calls or Prefect tasks."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flows.reporting import current_reporter
from tasks.finish import gap_lines
from tasks.network import network_label
from tasks.report import CheckResult, Timing, TuneReport
from tasks.run import TuningRun
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store, other_targets
from tilework.errors import ModuleError
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flows.settings import TuneSettings
    from tasks.network import Extracted
    from tilework.record import Record
    from tilework.target import Target


def tune_pipeline(settings: TuneSettings, stages: Stages = PLAIN) -> TuneReport:
    """Tune a network: extract, rounds until the budget is spent, distill, compile, check, time.

    May be killed at any moment and called again with equal settings: finished rounds are found in
    the store and count towards the budget.

    Raises:
        TileworkError: the network, target or store is unusable, or every measurement fails.
    """
    report, _ = tune_with_records(settings, stages)
    return report


def tune_with_records(
    settings: TuneSettings, stages: Stages = PLAIN
) -> tuple[TuneReport, dict[str, float]]:
    """As `tune_pipeline`, with the weight of each workload beside the report."""
    reporter = current_reporter()
    target = settings.resolved_target()
    sparse = settings.sparse_weights()
    store = open_store(settings.store)
    store.check_writable()
    _check_output(settings.output)
    reporter.stage(f"{settings.network} for {target}: extracting tasks")
    found = stages.extract(
        settings.network,
        target,
        settings.batch,
        settings.layout,
        settings.precision,
        settings.shapes,
        sparse,
    )
    with settings.measurer() as measurer:
        run = TuningRun(
            found,
            settings.tuning_options(),
            store,
            measurer,
            run_id=settings.run_id(found.fingerprint),
            seed=settings.seed,
            label=network_label(settings.network, sparse),
            extend=settings.extend,
            reproduce=f"tilework reproduce {{record_id}} --store {shlex.quote(settings.store)}",
        )
        for problem in store.problems:
            reporter.note(f"warning: {problem}")
        for other, count in other_targets(store, found.tasks).items():
            reporter.note(f"{settings.store}: {count} rows not used: they are of target {other}")
        _introduce(run)
        reporter.stage("searching")
        _search(run, stages)
        stopped = run.session.result().stopped
        reporter.stage(f"search over: {stopped}; timing the fastest candidates in turns")
        _finals(run, stages)
        progress = run.progress()
    stages.distill(store)
    module = _Finished()
    if target.run == "simulated":
        reporter.note(f"nothing is compiled, checked or timed: {target} is {caveat(str(target))}")
    else:
        module = _finish(settings, target, found, stages)
    report = TuneReport(
        run_id=run.session.run_id,
        network=settings.network,
        target=str(target),
        store=settings.store,
        module=module.path,
        progress=progress,
        before=module.before,
        after=module.after,
        check=module.check,
        stopped=stopped,
        resumed_rounds=run.resumed_rounds,
        gap=module.gap,
        failures=_failures(r for r in store.read() if r.run_id == run.session.run_id),
    )
    weights = zip(found.tasks, found.weights, strict=True)
    return report, {task.workload_key: weight for task, weight in weights}


class _Finished(NamedTuple):
    """What follows the search: see `tasks.report.TuneReport`; nothing for a simulated target."""

    path: str = ""
    before: Timing | None = None
    after: Timing | None = None
    check: CheckResult | None = None
    gap: tuple[str, ...] = ()


def _finish(settings: TuneSettings, target: Target, found: Extracted, stages: Stages) -> _Finished:
    """Compile with what was found, check, time."""
    reporter = current_reporter()
    reporter.stage("compiling")
    compiled = stages.compile(
        found.network, target, settings.store, settings.output, settings.precision
    )
    reporter.stage("checking the output")
    checked = stages.check(compiled)
    reporter.stage("timing the network, untuned and tuned in turns")
    before, after = stages.benchmark(compiled)
    gap = gap_lines(compiled.tuned, after.median_ms)
    return _Finished(settings.output, before, after, checked, gap)


def _check_output(output: str) -> None:
    """Fail before the search, not after it, if the module cannot be written."""
    if not output:
        return
    path = Path(output)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ModuleError(
            f"cannot write the module {output!r}: name a file in a folder that exists"
        )


def _introduce(run: TuningRun) -> None:
    reporter = current_reporter()
    tasks = run.extracted
    reporter.note(f"{len(tasks.tasks)} distinct tasks, {sum(tasks.weights)} calls")
    if run.resumed_rounds:
        budget = run.session.budget
        reporter.note(
            f"found {run.resumed_rounds} finished rounds of this run "
            f"({budget.trials} trials, {budget.elapsed_s:.0f} s): going on from there"
        )
    reporter.progress(run.progress())


def _search(run: TuningRun, stages: Stages) -> None:
    """Rounds until the session says that the run is over."""
    reporter = current_reporter()
    told = 0
    while (index := run.next_task()) is not None:
        number = run.session.rounds
        if not stages.propose(run, index, number):
            continue
        stages.measure(run, index, number)
        finished = stages.store(run, index, number)
        reporter.progress(run.progress(finished))
        for failure in run.session.failures[told:]:
            reporter.note(f"warning: {failure}")
        told = len(run.session.failures)
        stages.refit(run, index, number)


def _finals(run: TuningRun, stages: Stages) -> None:
    """Choose the best of each task among its fastest candidates."""
    reporter = current_reporter()
    while (index := run.next_final()) is not None:
        finished = stages.judge(run, index, run.session.rounds)
        if finished is not None:
            reporter.progress(run.progress(finished))


def _failures(records: Iterable[Record]) -> dict[str, int]:
    """Measurements that were not ``ok``, counted by status."""
    return dict(Counter(str(record.status) for record in records if not record.usable))
