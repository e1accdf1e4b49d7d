"""The Prefect flow ``tune-zoo``: the pipeline of `flows.zoo_pipeline` with its stages as tasks."""

from __future__ import annotations

from functools import partial

from prefect import flow

from flows.events import BEST_CHANGED, place_of
from flows.reporting import current_reporter
from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from flows.shell.reporter import RunReporter
from flows.zoo_pages import Title, verdict, zoo_page
from flows.zoo_pipeline import ZooReport, zoo_pipeline
from flows.zoo_settings import ZooSettings
from flows.zoo_stages import PREFECT


@flow(name="tune-zoo", flow_run_name="tune-zoo", persist_result=False, validate_parameters=True)
def tune_zoo(settings: ZooSettings) -> ZooReport:
    """Tune many networks under one budget, spent where it saves most; make the module of each.

    A crashed run may simply be started again: finished rounds are in the record store.

    Raises:
        ZooFailed: some networks could not be tuned or made, or were refused; the run is Failed,
            the others are done, and old modules stay.
    """
    inner = current_reporter()
    with published(tell=inner.warn) as run:
        title = Title("tune", settings)
        run.describe(title.name, title.tags)
        reporter = RunReporter(run, artifact_key("tune-zoo", title.words), title.words, inner)
        return reporter.of(
            partial(zoo_pipeline, settings, PREFECT),
            lambda report: _publish(run, reporter, title, report),
        )


def _publish(run: PublishedRun, reporter: RunReporter, title: Title, report: ZooReport) -> None:
    """The summary, the last state of the live page, and word of records that are new bests."""
    text = zoo_page(report, title.words)
    run.page(artifact_key("zoo", title.words), text, f"{title.words}: what came of it")
    reporter.ended(verdict(report.outcomes, report.failed))
    for search in report.searches:
        if search.changed:
            key = artifact_key("zoo", title.words, search.target)
            resource = {
                "prefect.resource.id": f"tilework.best.{key}",
                "prefect.resource.name": title.words,
                "tilework.target": search.target,
                "tilework.store": report.store,
            }
            said = {
                "store": place_of(report.store),
                "target": search.target,
                "changed": search.changed,
            }
            run.event(BEST_CHANGED, resource, said)
