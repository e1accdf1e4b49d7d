"""The Prefect flow ``tune-network``: the pipeline of `flows.pipeline` with its stages as tasks."""

from __future__ import annotations

import logging

from prefect import flow
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import (
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from flows.artifacts import ArtifactReporter, publish_summary, publish_table
from flows.pipeline import Tuned, TuneFailed, tune_pipeline
from flows.reporting import current_reporter, reporting
from flows.settings import TuneSettings
from tasks.report import TuneReport
from tasks.shells import PREFECT


@flow(
    name="tune-network",
    flow_run_name="tune {settings.network} ({settings.effort})",
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
    reporter = ArtifactReporter(settings.network, current_reporter())
    try:
        with reporting(reporter):
            tuned = tune_pipeline(settings, PREFECT)
    except TuneFailed as error:
        _publish(error.tuned)
        raise
    _publish(tuned)
    return tuned.report


def _publish(tuned: Tuned) -> None:
    publish_table(tuned.report.network, tuned.report.progress)
    publish_summary(tuned.report, tuned.records, tuned.report.weights)


def run_as_flow(settings: TuneSettings) -> TuneReport:
    """Run the flow in this process; on the terminal, the caller's reporter does the talking."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.setLevel(logging.CRITICAL)
    # a temporary server on a busy machine takes longer to start than Prefect expects
    with temporary_settings({PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 120}):
        return tune_network(settings)
