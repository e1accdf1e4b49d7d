"""The stages of a run as one value: plain functions here, Prefect's in `tasks.shells`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tasks import extraction, finish, run, standing, stores

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.extraction import Extracted
    from tasks.finish import Compiled
    from tasks.network import NetworkSpec
    from tasks.patience import Tell
    from tasks.report import CheckResult, Standing
    from tasks.run import LiveRun, SearchPlan
    from tilework.measure import Measurer
    from tilework.record import History
    from tilework.search.report import Round
    from tilework.target import Target


class Extract(Protocol):
    """Load a network and list its tasks."""

    def __call__(self, spec: NetworkSpec, target: Target) -> Extracted:
        """See `tasks.extraction.extract`."""


class Prepare(Protocol):
    """Open a run, with what the store knows of it."""

    def __call__(
        self, plan: SearchPlan, store: RecordStore, measurer: Measurer, tell: Tell
    ) -> LiveRun:
        """See `tasks.run.prepare`."""


class RunRound(Protocol):
    """A round of a task, or its finals."""

    def __call__(self, run: LiveRun, index: int) -> Round | None:
        """See `tasks.run.run_round`, `tasks.run.run_final`."""


class Distill(Protocol):
    """Keep what the run found and learnt where it is found quickly."""

    def __call__(self, run: LiveRun) -> None:
        """See `tasks.stores.distill`."""


class Compile(Protocol):
    """Compile with the best records, to a temporary file."""

    def __call__(
        self, extracted: Extracted, target: Target, records: History, output: str, tell: Tell
    ) -> Compiled:
        """See `tasks.finish.compile_network`."""


class Check(Protocol):
    """Compare the module's output with a reference's."""

    def __call__(self, compiled: Compiled) -> CheckResult | None:
        """See `tasks.finish.check`."""


class Compare(Protocol):
    """Time the module beside what it would replace."""

    def __call__(self, compiled: Compiled) -> Standing | None:
        """See `tasks.standing.compare`."""


class Keep(Protocol):
    """Give the module its name, or refuse it."""

    def __call__(
        self, compiled: Compiled, check: CheckResult | None, standing: Standing | None
    ) -> str:
        """See `tasks.finish.keep`."""


@dataclass(frozen=True)
class Stages:
    """What a pipeline calls, in this order: round and final once for each, the others once."""

    extract: Extract
    prepare: Prepare
    round: RunRound
    final: RunRound
    distill: Distill
    compile: Compile
    check: Check
    compare: Compare
    keep: Keep


PLAIN = Stages(
    extract=extraction.extract,
    prepare=run.prepare,
    round=run.run_round,
    final=run.run_final,
    distill=stores.distill,
    compile=finish.compile_network,
    check=finish.check,
    compare=standing.compare,
    keep=finish.keep,
)
