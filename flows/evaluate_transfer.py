"""The Prefect flow ``evaluate-transfer``: `tasks.learning.transfer`, and what a server is told."""

from __future__ import annotations

from prefect import flow

from flows.events import Event
from flows.learning_settings import TransferSettings
from flows.model_pages import transfer_page
from flows.shell import published
from flows.shell.names import artifact_key
from tasks.learning.transfer import Transfers
from tasks.learning.transfer import evaluate_transfer as evaluate


@flow(
    name="evaluate-transfer",
    flow_run_name="evaluate-transfer",
    persist_result=False,
    validate_parameters=True,
)
def evaluate_transfer(settings: TransferSettings, event: Event | None = None) -> list[Transfers]:
    """Leave out each target and device of a store in turn: what are the others' records worth?

    An event of one store has that store alone looked at.
    """
    settings = settings.about(event)
    name = f"evaluate transfer in {settings.stores[0]}"
    with published(name) as run:
        if run.nothing_yet(name, settings.stores, "nothing to compare yet"):
            return []
        done = evaluate(
            settings.stores, run.info, only=settings.only, new=settings.new, most=settings.most
        )
        for one in done:
            run.info(one.verdict)
            if not one.skipped:
                run.page(artifact_key("transfer", one.kind), transfer_page(one), one.verdict)
    return done
