"""What came of each network of a zoo or a release, and of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tasks.report import Finished

State = Literal["made", "unchanged", "held", "refused", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """What came of one network of a zoo or a release.

    Attributes:
        network, target, precision: which one.
        use: how often it runs, relative to the others.
        state: ``made`` (compiled, checked, kept), ``unchanged`` (the module that is there is
            what would be made), ``held`` (what would be made was refused before as too slow; the
            old one stays), ``refused`` (it is wrong, or too slow), ``failed`` (it could not be
            compiled, or not tuned), ``skipped`` (nothing can be compiled for its target).
        reason: why, in one line; of what was made: what had changed.
        module: the file that is there; empty if there is none.
        finished: check and times; None if it was not compiled now.
        latency_ms, untuned_ms: of the module that is there; None if it was never timed.
    """

    network: str
    target: str
    precision: str
    use: float = 1.0
    state: State = "skipped"
    reason: str = ""
    module: str = ""
    finished: Finished | None = None
    latency_ms: float | None = None
    untuned_ms: float | None = None

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it: the run as a whole has failed then."""
        return self.state in ("refused", "failed")


def failure(outcomes: Sequence[Outcome]) -> str:
    """What went wrong in a run over many networks, in one line; empty if nothing did."""
    bad = [f"{one.network} for {one.target}: {one.reason}" for one in outcomes if one.bad]
    if not bad:
        return ""
    others = "the others are done" if len(bad) < len(outcomes) else "no other is there"
    return f"{len(bad)} of {len(outcomes)} networks failed, {others}: {'; '.join(bad)}"


def mix_ms(outcomes: Sequence[Outcome]) -> tuple[float, float] | None:
    """Mean latency of one call, untuned and as it is now, by use, in ms; None if none was timed.

    Networks without both times are left out.
    """
    timed = [
        (one.use, one.untuned_ms, one.latency_ms)
        for one in outcomes
        if one.untuned_ms is not None and one.latency_ms is not None
    ]
    total = sum(use for use, _, _ in timed)
    if not timed:
        return None
    return (
        sum(use * untuned for use, untuned, _ in timed) / total,
        sum(use * latency for use, _, latency in timed) / total,
    )
