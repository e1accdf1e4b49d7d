"""The Prefect flow ``retrain``: `tasks.learning.retrain`, and what a server is told of it."""

from __future__ import annotations

from prefect import flow

from flows.events import MODEL_PROMOTED, Event, place_of
from flows.learning_settings import RetrainSettings
from flows.model_pages import model_card
from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from tasks.learning.retrain import Retrained
from tasks.learning.retrain import retrain as learn
from tasks.stores import open_store


@flow(name="retrain", flow_run_name="retrain", persist_result=False, validate_parameters=True)
def retrain(settings: RetrainSettings, event: Event | None = None) -> list[Retrained]:
    """Train cost models from stores, judge them on what they have not seen, promote the better.

    A model that is not promoted is no failure: the run is Completed and its page says why. An
    event of one store has that store alone learnt from.
    """
    settings = settings.about(event)
    first = settings.stores[0]
    with published(f"retrain {first}") as run:
        if run.nothing_yet(f"retrain {first}", settings.stores, "nothing to learn from yet"):
            return []
        done = learn(
            settings.stores, run.info, most=settings.most, force=settings.force,
            grown=settings.grown, by=f"flow retrain, run {run.id}",
        )  # fmt: skip
        for one in done:
            _tell(run, one, first)
    return done


def _tell(run: PublishedRun, done: Retrained, store: str) -> None:
    for note in done.notes:
        run.warning(note)
    run.info(done.verdict)
    if done.card is None:
        return
    moves = open_store(store).models.moves.of(done.kind)
    run.page(artifact_key("model", done.kind), model_card(done, moves), done.verdict)
    if done.promoted:
        resource = {
            "prefect.resource.id": f"tilework.model.{done.kind}",
            "prefect.resource.name": f"cost model for {done.kind}",
        }
        payload = {
            "model": done.name, "before": done.before, "store": place_of(store),
            "why": done.verdict,
        }  # fmt: skip
        run.event(MODEL_PROMOTED, resource, payload)
