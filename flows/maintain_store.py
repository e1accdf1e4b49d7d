"""The Prefect flow ``maintain-store``: `tasks.upkeep`, and what a server is told of it."""

from __future__ import annotations

from pathlib import PurePosixPath

from prefect import flow

from flows.shell import PublishedRun, published
from flows.shell.names import artifact_key
from flows.upkeep_settings import MaintainSettings
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
    with published(f"maintain {settings.store}") as run:
        done = look_after(settings.store, settings.repair, run.info)
        _tell(run, done)
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
