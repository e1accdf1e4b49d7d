"""The Prefect flow ``maintain-store``: `tasks.upkeep`, and what a server is told of it."""

from __future__ import annotations

from pathlib import PurePosixPath

from prefect import flow

from flows.events import NEW_TARGET, STORE_GROWN, place_of
from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from flows.texts import sentence
from flows.upkeep_settings import MaintainSettings
from tasks.learning.growth import ENOUGH, look_for_growth
from tasks.upkeep import Upkeep, look_after
from tilework.errors import RunFailed


@flow(
    name="maintain-store",
    flow_run_name="maintain {settings.store}",
    persist_result=False,
    validate_parameters=True,
)
def maintain_store(settings: MaintainSettings) -> Upkeep:
    """Check a store, set aside what is damaged if that is asked, compact, distill, clear away.

    Raises:
        RunFailed: something is wrong that nobody but a person can mend.
    """
    name = f"maintain {settings.store}"
    with published(name) as run:
        if run.nothing_yet(name, [settings.store], "nothing to look after yet"):
            return Upkeep(settings.store, skipped="nothing to look after yet")
        done = look_after(settings.store, settings.repair, run.info)
        _tell(run, done)
        if not done.skipped:
            _tell_of_growth(run, settings.store)
        if done.open:
            raise RunFailed(f"{done.store}: {done.verdict}: {done.open[0]}")
    return done


def _tell(run: PublishedRun, done: Upkeep) -> None:
    for line in done.mended:
        run.warning(f"mended: {line}")
    for line in done.open:
        run.warning(line)
    run.info(done.verdict)
    if not done.skipped:
        run.page(artifact_key("store", PurePosixPath(done.store).name or "store"), _page(done))


def _tell_of_growth(run: PublishedRun, store: str) -> None:
    """Emit what starts `retrain` and `evaluate-transfer`: much is new, or a target is."""
    where = place_of(store)
    for growth in look_for_growth(store, run.info):
        resource = {
            "prefect.resource.id": f"tilework.model.{growth.kind}",
            "prefect.resource.name": f"records of {growth.kind} in {store}",
        }
        if growth.share >= ENOUGH:
            run.info(f"worth learning from: {growth.text}")
            run.event(STORE_GROWN, resource, {"store": where, "message": growth.text})
        elif growth.new_targets:
            names = ", ".join(growth.new_targets)
            run.info(f"new since {growth.name}: {names}")
            run.event(NEW_TARGET, resource, {"store": where, "message": names})


def _page(done: Upkeep) -> str:
    """Markdown: the verdict first."""
    lines = [f"# {done.store}", "", f"**{sentence(done.verdict)}.**", ""]
    for title, remarks in (
        ("To look at", done.open),
        ("Mended", done.mended),
        ("Done", done.done),
    ):
        if remarks:
            lines += [f"**{title}**", "", *(f"- {line}" for line in remarks), ""]
    lines.append(f"It took {done.seconds:.0f} s.")
    return "\n".join(lines)
