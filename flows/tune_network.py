"""The Prefect flow ``tune-network``: the pipeline of `flows.pipeline` with its stages as tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prefect import flow

from flows.convergence import convergence, task_curves
from flows.events import BEST_CHANGED, place_of
from flows.pipeline import Tuned, tune_pipeline
from flows.plots import plot_png
from flows.reporting import current_reporter
from flows.settings import TuneSettings
from flows.shell.names import artifact_key, run_name, run_tags
from flows.shell.pages import summary_page
from flows.shell.published import PublishedRun, published
from flows.shell.reporter import RunReporter
from flows.shell.stages import PREFECT
from flows.texts import target_words
from tasks.report import TuneReport
from tilework.target import Target
from tilework.target.identity import identity_of
from tilework.target.runs import mark

if TYPE_CHECKING:
    from tasks.report import Progress


@flow(
    name="tune-network",
    flow_run_name="tune {settings.network}",
    persist_result=False,
    validate_parameters=True,
)
def tune_network(settings: TuneSettings) -> TuneReport:
    """Tune a network for a target: rounds of search and measurement, then a compiled module.

    A crashed run may simply be started again: finished rounds are in the record store.

    Raises:
        TuneFailed: the module is wrong or slower than the one that it would replace; the run is
            Failed, the old module stays.
    """
    inner = current_reporter()
    with published(tell=inner.warn) as run:
        target, label = settings.resolved_target(), settings.spec().label
        words = [label, target_words(target), settings.precision]
        run.describe(run_name(label, target), run_tags([label], target))
        reporter = RunReporter(run, artifact_key("tune", *words), " · ".join(words), inner)
        tuned = reporter.of(
            partial(tune_pipeline, settings, PREFECT),
            lambda tuned: _publish(run, reporter, words, tuned),
        )
        _tell_of_bests(run, words, reporter.first, tuned.report)
    return tuned.report


def _publish(run: PublishedRun, reporter: RunReporter, words: list[str], tuned: Tuned) -> None:
    """The summary, with the picture of the search, and the last state of the live page."""
    report = tuned.report
    title = " · ".join(words)
    text = summary_page(report, title, reporter.first, _picture(tuned, title))
    run.page(artifact_key("summary", *words), text, f"{title}: {report.verdict}")
    reporter.ended(f"**{report.verdict}**")


def _picture(tuned: Tuned, title: str) -> bytes:
    """How the search converged on this device; its last point is the summary's estimate."""
    report = tuned.report
    device = identity_of(Target(report.target))
    records = [record for record in tuned.records if device.owns(record)]
    rows = zip(report.weights, report.progress.rows, strict=True)
    drafts = {key: row.draft_ms / 1e3 for key, row in rows if row.draft_ms is not None}
    curve = convergence(records, report.weights, drafts)
    if not curve.trials:
        return b""
    return plot_png(curve, title + mark(report.target), task_curves(records, report.weights))


def _tell_of_bests(
    run: PublishedRun, words: list[str], first: Progress | None, report: TuneReport
) -> None:
    """Emit ``tilework.best.changed`` if a task got faster: what was compiled before is stale."""
    was = {row.id: row.latency_ms for row in first.rows} if first is not None else {}
    faster = [row.desc for row in report.progress.rows if row.latency_ms != was.get(row.id)]
    if faster:
        run.event(
            BEST_CHANGED,
            {
                "prefect.resource.id": f"tilework.best.{artifact_key(*words)}",
                "prefect.resource.name": " · ".join(words),
                "tilework.network": report.network,
                "tilework.target": report.target,
                "tilework.store": report.store,
            },
            {
                "network": report.network,
                "target": report.target,
                "store": place_of(report.store),
                "tasks": faster,
                "estimated_total_s": report.progress.estimated_total_s,
            },
        )
