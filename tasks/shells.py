"""The stages as Prefect tasks: names, and nothing else.

One task run per round, never per candidate: a Prefect server records 13 to 28 task runs a second
(docs/prefect.md). Nothing is cached or persisted by Prefect, and nothing is retried by it: what
may pass is tried again where it happens (`tasks.patience`), with and without Prefect alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.stages import PLAIN, Stages


class _Arguments:
    """A stage's arguments, which Prefect would walk through element by element otherwise."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def _shell(function: Callable[..., Any], name: str) -> Any:
    def stage(arguments: _Arguments) -> Any:
        return function(*arguments.values)

    shell = task(
        name=name, retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False
    )(stage)
    return lambda *values: shell(_Arguments(values))


PREFECT = Stages(**{name: _shell(function, name) for name, function in vars(PLAIN).items()})
