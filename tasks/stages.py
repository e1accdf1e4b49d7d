"""The stages of a run as one value: plain functions here, Prefect's in `tasks.shells`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks import extraction, finish, run, standing, stores

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.extraction import Extracted
    from tasks.finish import Compiled
    from tasks.network import NetworkSpec
    from tasks.patience import Tell
    from tasks.plan import SearchPlan
    from tasks.report import CheckResult, Standing
    from tasks.run import LiveRun
    from tilework.measure import Measurer
    from tilework.record import History
    from tilework.search.report import Round
    from tilework.target import Target


@dataclass(frozen=True)
class Stages:
    """What a pipeline calls, in this order: round and final once for each, the others once.

    `PLAIN` says which function each is.
    """

    extract: Callable[[NetworkSpec, Target], Extracted]
    prepare: Callable[[SearchPlan, RecordStore, Measurer, Tell], LiveRun]
    round: Callable[[LiveRun, int], Round | None]
    final: Callable[[LiveRun, int], Round | None]
    distill: Callable[[LiveRun], None]
    compile: Callable[[Extracted, Target, History, str, Tell], Compiled]
    check: Callable[[Compiled], CheckResult | None]
    compare: Callable[[Compiled], Standing | None]
    keep: Callable[[Compiled, CheckResult | None, Standing | None], str]


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
