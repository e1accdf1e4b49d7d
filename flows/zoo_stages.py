"""The stages as Prefect tasks whose runs say which network they are about, and which target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.texts import round_name, target_words
from tasks.network import NetworkSpec
from tasks.plan import SearchPlan
from tasks.run import LiveRun
from tasks.shells import prefect_stages

if TYPE_CHECKING:
    from tilework.search.report import Round


def _round_name(run: LiveRun, finished: Round) -> str:
    return f"{round_name(run.progress(finished))} ({target_words(run.target)})"


def _label(stage: str, values: tuple[Any, ...]) -> str:
    """``compile mlp`` or ``prepare llvm znver4 x2``, by what the stage is about."""
    about = values[0]
    if isinstance(about, NetworkSpec):
        return f"{stage} {about.label}"
    if isinstance(about, LiveRun):
        return f"{stage} {target_words(about.target)}"
    if isinstance(about, SearchPlan):
        return f"{stage} {target_words(about.tasks[0].target)}"
    extracted = getattr(about, "extracted", about)  # of a compiled network, or to be compiled
    return f"{stage} {extracted.spec.label}"


PREFECT = prefect_stages(_round_name, _label)
