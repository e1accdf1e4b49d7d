"""The Prefect flow ``canary``: `tasks.canary`, and what a server is told of it."""

from __future__ import annotations

from prefect import flow

from flows.canary_page import canary_page
from flows.events import BEST_CHANGED, place_of
from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key, device_words, run_tags
from flows.texts import target_words
from flows.upkeep_settings import CanarySettings
from tasks.canary.report import CanaryReport, remedy_line
from tasks.canary.run import CanaryPlan, OpenMeasurer, run_canary
from tasks.stores import open_store

NOTHING = "nothing to watch yet"
MACHINE_EVENT = "tilework.canary.machine"
"""The calibration loop has become slower; see `flows/automations.yaml`."""
KERNELS_EVENT = "tilework.canary.kernels"
"""Kernels have become slower, and the machine has not."""


@flow(name="canary", flow_run_name="canary", persist_result=False, validate_parameters=True)
def canary(settings: CanarySettings) -> CanaryReport:
    """Time a few frozen kernels beside the calibration loop, and say what became slower.

    Slow kernels have their finals run again, and are tuned if that does not mend them, once a day.
    """
    return watched(settings)


def watched(
    settings: CanarySettings,
    plan: CanaryPlan | None = None,
    open_measurer: OpenMeasurer | None = None,
) -> CanaryReport:
    """The body of the flow.

    Args:
        settings: the flow's.
        plan: instead of that of the settings, for a test in which time runs faster.
        open_measurer: what to time with, for a test; see `tasks.canary.run.OpenMeasurer`.
    """
    with published() as run:
        target = settings.resolved_target()
        name = f"canary · {target_words(target)} · {device_words(target)}"
        run.describe(name, run_tags((), target))
        if run.nothing_yet(name, [settings.store], NOTHING):
            return CanaryReport("", "", str(target), skipped=NOTHING)
        store = open_store(settings.store, must_exist=True)
        report = run_canary(target, store, plan or settings.plan(), run.info, open_measurer)
        tell(run, report, settings.store)
    return report


def tell(run: PublishedRun, report: CanaryReport, store: str) -> None:
    """Log, alert and draw what the canary found."""
    for note in report.notes:
        run.info(note)
    resource = {
        "prefect.resource.id": f"tilework.device.{report.device_id}",
        "prefect.resource.name": report.device,
    }
    for name, text in (
        (MACHINE_EVENT, report.machine_alert),
        (KERNELS_EVENT, report.kernels_alert),
    ):
        if text:
            run.warning(text)
            run.event(name, resource, {"message": text, "target": report.target})
    for remedy in report.remedies:
        run.warning(remedy_line(remedy))
    if any(remedy.other for remedy in report.remedies):
        run.event(BEST_CHANGED, resource, {"target": report.target, "store": place_of(store)})
    (run.info if report.healthy else run.warning)(report.verdict)
    if report.watch is not None:
        run.page(artifact_key("canary", report.device_id), canary_page(report))
