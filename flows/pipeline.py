"""The order of a tuning run: one function, whether its stages are plain calls or Prefect tasks."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flows.reporting import PipelineFailed, current_reporter
from tasks.device_lock import hold_device
from tasks.engines import points_of, points_text
from tasks.finish import check_place, gap_lines
from tasks.patience import patiently
from tasks.plan import SearchPlan
from tasks.report import Finished, TuneReport
from tasks.run import conclude
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store, other_uses
from tilework.errors import NetworkError, RunFailed
from tilework.target.identity import identity_of
from tilework.target.runs import caveat
from tilework.te.points import typical_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flows.settings import TuneSettings
    from storage import RecordStore
    from tasks.extraction import Extracted
    from tasks.report import CheckResult, Progress, Standing
    from tasks.run import LiveRun
    from tilework.record import History, Record
    from tilework.search.protocol import Task
    from tilework.target import Target


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a tuning run came to.

    Attributes:
        report: the outcome.
        records: all that this device has measured of the network's tasks, in earlier runs, too.
    """

    report: TuneReport
    records: list[Record]


class TuneFailed(PipelineFailed[Tuned]):
    """A run whose module must not be used and was not kept."""


def tune_pipeline(settings: TuneSettings, stages: Stages = PLAIN) -> Tuned:
    """Tune a network: extract, prepare, rounds until the budget is spent, finals; then `finish`.

    May be killed at any moment and called again with equal settings: finished rounds are found in
    the store and count towards the budget.

    Raises:
        TuneFailed: the module is wrong or slower than the one that it would replace. The records
            are kept, and the old module stays as it was.
        TileworkError: the network, target or store is unusable, or every measurement fails.
    """
    reporter = current_reporter()
    target, spec = settings.resolved_target(), settings.spec()
    store = patiently(lambda: open_store(settings.store), reporter.warn)
    check_place(settings.output)
    reporter.stage(f"{settings.network} for {target}: extracting tasks")
    extracted = stages.extract(spec, target)
    for line in extracted.notes:
        reporter.note(line)
    if extracted.left and not extracted.tasks:
        raise NetworkError(f"{settings.network}: there is nothing to tune; {extracted.left}")
    measuring = settings.measurer()  # which refuses a machine that is not this one
    patiently(store.check_writable, reporter.warn)  # what was refused so far leaves no store
    device = identity_of(target)
    plan = SearchPlan(
        extracted.tasks,
        extracted.weights,
        settings.tuning_options(),
        run_id=settings.run_id(extracted.fingerprint, device),
        seed=settings.seed,
        label=spec.label,
        extend=settings.extend,
        reproduce=f"tilework reproduce {{record_id}} --store {shlex.quote(settings.store)}",
        model=settings.model,
        packages=settings.packages,
    )
    with hold_device(device, f"tune {spec.label}", tell=reporter.note):
        with measuring as measurer:
            run = stages.prepare(plan, store, measurer, reporter.warn)
            tell_of_rows(store, run.session.measured)
            stopped = search(run, stages)
            progress = run.progress()  # now: what follows is no search
        stages.distill(run)
        finished = Finished()
        if target.run == "simulated":
            reporter.note(f"nothing is compiled, checked or timed: it is {caveat(str(target))}")
        else:
            finished = finish(extracted, target, store, settings.output, stages)
        conclude(run)
    tuned = _tuned(settings, run, extracted, progress, stopped, finished)
    if finished.failed:
        raise TuneFailed(finished.failed, tuned)
    return tuned


def tell_of_rows(store: RecordStore, tasks: Sequence[Task]) -> None:
    """Note what rows of other targets serve for, and warn of what cannot be used.

    Ask it after the tasks' records were read.
    """
    reporter = current_reporter()
    for line in patiently(lambda: other_uses(store, tasks), reporter.warn):
        reporter.note(line)
    for line in patiently(lambda: store.problems, reporter.warn):
        reporter.warn(line)


def search(run: LiveRun, stages: Stages = PLAIN) -> str:
    """Rounds until the session says that the run is over, then finals; why the rounds ended."""
    reporter = current_reporter()
    _introduce(run)
    reporter.stage("searching")
    warned = 0
    while (index := run.next_task()) is not None:
        finished = stages.round(run, index)
        if finished is None:
            continue
        reporter.progress(run.progress(finished))
        for failure in run.session.failures[warned:]:
            reporter.warn(str(failure))
        warned = len(run.session.failures)
    stopped = run.session.result().stopped
    reporter.stage(f"search over: {stopped}; timing the fastest candidates in turns")
    while (index := run.next_final()) is not None:
        finished = stages.final(run, index)
        if finished is not None:
            reporter.progress(run.progress(finished))
    return stopped


def finish(
    extracted: Extracted, target: Target, records: History, output: str, stages: Stages = PLAIN
) -> Finished:
    """Compile with what is known, check, time, and keep the module if it is good.

    ``failed`` of what is returned says why it was not kept, and the old file is as it was.

    Raises:
        TileworkError: it cannot be compiled, or not written.
    """
    reporter = current_reporter()
    reporter.stage("compiling")
    compiled = patiently(
        lambda: stages.compile(extracted, target, records, output, reporter.warn), reporter.warn
    )
    checked: CheckResult | None = None
    standing: Standing | None = None
    gap: tuple[str, ...] = ()
    try:
        for note in compiled.notes:
            reporter.note(note)
        reporter.stage("checking the output")
        checked = stages.check(compiled)
        if checked is not None and checked.passed:
            reporter.stage("timing the network in turns with what it replaces")
            standing = stages.compare(compiled)
        if standing is not None and standing.note:
            reporter.warn(standing.note)
        if standing is not None:
            several = len(points_of(extracted.network)) > 1  # what tasks take is of one
            gap = gap_lines(compiled.tuned, None if several else standing.tuned.median_ms)
        path = stages.keep(compiled, checked, standing)
    except RunFailed as error:
        return Finished("", checked, standing, gap, failed=str(error))
    finally:
        compiled.discard()
    return Finished(path, checked, standing, gap)


def _tuned(
    settings: TuneSettings,
    run: LiveRun,
    extracted: Extracted,
    progress: Progress,
    stopped: str,
    finished: Finished,
) -> Tuned:
    target = str(run.target)
    records = [
        record
        for index in range(len(extracted.tasks))
        for record in run.patiently(partial(run.session.records, index))
    ]
    weights = zip(extracted.tasks, extracted.weights, strict=True)
    report = TuneReport(
        run_id=run.plan.run_id,
        network=settings.network,
        target=target,
        store=settings.store,
        module=finished.module,
        progress=progress,
        check=finished.check,
        standing=finished.standing,
        failed=finished.failed,
        stopped=stopped,
        resumed_rounds=run.resumed_rounds,
        failures=_failures(r for r in records if r.run_id == run.plan.run_id),
        gap=finished.gap,
        weights={task.workload_key: float(weight) for task, weight in weights},
        model=run.start.text,
        left=extracted.left,
        loss=extracted.loss,
    )
    return Tuned(report, records)


def _introduce(run: LiveRun) -> None:
    reporter = current_reporter()
    plan = run.plan
    reporter.note(f"{len(plan.tasks)} distinct tasks, {sum(plan.weights)} calls")
    symbols = {s for task in plan.tasks for s in task.compute_dag.symbols}
    if symbols:
        where = points_text(typical_points(sorted(symbols, key=lambda s: s.name)))
        reporter.note(f"measured at {where}: latencies are geometric means of these points")
    if run.start.warning:
        reporter.warn(run.start.warning)
    reporter.note(f"begins with {run.start.text}")
    if run.resumed_rounds:
        budget = run.session.budget
        reporter.note(
            f"found {run.resumed_rounds} finished rounds of this run "
            f"({budget.trials} trials, {budget.elapsed_s:.0f} s): going on from there"
        )
    reporter.progress(run.progress())


def _failures(records: Iterable[Record]) -> dict[str, int]:
    """Measurements that were not ``ok``, counted by status."""
    return dict(Counter(str(record.status) for record in records if not record.usable))
