"""The stages as Prefect tasks: names, retries, and nothing else.

One task run per stage of a round, never per candidate: a Prefect server records 13 to 28 task runs
a second (docs/prefect.md). Nothing is cached or persisted by Prefect; the record store is the
truth, so a stage that runs again finds the finished rounds there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.stages import PLAIN, Stages
from tilework.errors import TileworkError


def _worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """Retry what may pass (a lost worker, a full disk), not errors that a user has to mend."""
    try:
        state.result()
    except TileworkError:
        return False
    except Exception:
        return True
    return False


def _shell(function: Callable[..., Any], name: str, run_name: str = "") -> Any:
    return task(
        name=name,
        task_run_name=run_name or None,
        retries=2,
        retry_delay_seconds=[2, 20],
        retry_condition_fn=_worth_retrying,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
    )(function)


def _round_shell(function: Callable[..., Any], name: str) -> Any:
    return _shell(function, name, f"{name} round {{round}} (task {{index}})")


PREFECT = Stages(
    extract=_shell(PLAIN.extract, "extract"),
    propose=_round_shell(PLAIN.propose, "propose"),
    measure=_round_shell(PLAIN.measure, "measure"),
    store=_round_shell(PLAIN.store, "store"),
    refit=_round_shell(PLAIN.refit, "refit"),
    judge=_round_shell(PLAIN.judge, "finals"),
    distill=_shell(PLAIN.distill, "distill"),
    compile=_shell(PLAIN.compile, "compile"),
    check=_shell(PLAIN.check, "check"),
    benchmark=_shell(PLAIN.benchmark, "benchmark"),
)
