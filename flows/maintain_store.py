"""The Prefect flow ``maintain-store``: `tasks.upkeep`, and what a server is told of it."""

from __future__ import annotations

from pathlib import PurePosixPath

from prefect import flow

from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from flows.upkeep_settings import MaintainSettings
from tasks.learning.growth import ENOUGH, look_for_growth
from tasks.upkeep import Upkeep, look_after
from tilework.errors import RunFailed

GROWN_EVENT = "tilework.store.grown"
"""A store has grown by a fifth since its last model, or has none: `retrain` follows."""
NEW_TARGET_EVENT = "tilework.store.new-target"
"""There are records of a target that the last model has not seen: `evaluate-transfer` follows."""


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
    with published(f"maintain {settings.store}") as run:
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
    for found in look_for_growth(store, run.info):
        resource = {
            "prefect.resource.id": f"tilework.model.{found.kind}",
            "prefect.resource.name": f"records of {found.kind} in {store}",
        }
        if found.share >= ENOUGH:
            run.info(f"worth learning from: {found.text}")
            run.event(GROWN_EVENT, resource, {"store": store, "message": found.text})
        elif found.new_targets:
            names = ", ".join(found.new_targets)
            run.info(f"new since {found.name}: {names}")
            run.event(NEW_TARGET_EVENT, resource, {"store": store, "message": names})


def _page(done: Upkeep) -> str:
    """Markdown: the verdict first."""
    lines = [f"# {done.store}", "", f"**{done.verdict[:1].upper()}{done.verdict[1:]}.**", ""]
    for title, found in (
        ("To look at", done.open),
        ("Mended", done.mended),
        ("Done", done.done),
    ):
        if found:
            lines += [f"**{title}**", "", *(f"- {line}" for line in found), ""]
    lines.append(f"It took {done.seconds:.0f} s.")
    return "\n".join(lines)
