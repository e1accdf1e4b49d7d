"""The Prefect flow ``compile-release``: the pipeline of `flows.release_pipeline`."""

from __future__ import annotations

from functools import partial

from prefect import flow

from flows.events import Event
from flows.release_pipeline import ReleaseReport, release_pipeline
from flows.reporting import current_reporter
from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from flows.shell.reporter import RunReporter
from flows.zoo_pages import Title, release_page, verdict
from flows.zoo_settings import ReleaseSettings
from flows.zoo_stages import PREFECT


@flow(
    name="compile-release",
    flow_run_name="compile-release",
    persist_result=False,
    validate_parameters=True,
)
def compile_release(settings: ReleaseSettings, event: Event | None = None) -> ReleaseReport:
    """Compile, check, compare and keep the networks whose best records have changed.

    Where nothing has changed, nothing is done, so that it may be started at every event. Of an
    event only what is this release's is made: of its store, and those of its networks that the
    event names.

    Raises:
        ReleaseFailed: some networks could not be made, or were refused; the run is Failed, the
            others are done, and old modules stay.
    """
    inner = current_reporter()
    with published(tell=inner.warn) as run:
        title = Title("compile", settings)
        run.describe(title.name, title.tags)
        key = artifact_key("compile-release", title.words)
        if line := settings.not_about(event):
            return _nothing(run, title, settings, line)
        if run.nothing_yet(title.name, [settings.store], "nothing to compile yet"):
            return ReleaseReport(settings.store, settings.folder, ())
        settings = settings.about(event)
        reporter = RunReporter(run, key, title.words, inner)
        return reporter.of(
            partial(release_pipeline, settings, PREFECT),
            lambda report: _publish(run, reporter, title, report),
        )


def _nothing(
    run: PublishedRun, title: Title, settings: ReleaseSettings, line: str
) -> ReleaseReport:
    run.info(f"nothing to do: {line}")
    run.describe(f"{title.name} · nothing to do")
    return ReleaseReport(settings.store, settings.folder, ())


def _publish(
    run: PublishedRun, reporter: RunReporter, title: Title, report: ReleaseReport
) -> None:
    text = release_page(report, title.words)
    run.page(artifact_key("release", title.words), text, f"{title.words}: what came of it")
    reporter.ended(verdict(report.outcomes, report.failed))
