"""The stages as Prefect tasks: names, and nothing else.

One task run per round, never per candidate: a Prefect server records 13 to 28 task runs a second
(docs/prefect.md). Nothing is cached or persisted by Prefect, and nothing is retried by it: what
may pass is tried again where it happens (`tasks.patience`), with and without Prefect alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext

from tasks.stages import PLAIN, Stages

if TYPE_CHECKING:
    from tasks.run import LiveRun
    from tilework.search.report import Round

Name = Callable[["LiveRun", "Round"], str]
"""What a finished round is called."""


Label = Callable[[str, tuple[Any, ...]], str]
"""What a call of a stage is called: from the stage's name and the arguments."""


def prefect_stages(name_of: Name, label_of: Label = lambda name, _: name) -> Stages:
    """The stages of `tasks.stages.PLAIN`, each call a task run.

    Args:
        name_of: gives a round's task run its name once it is over.
        label_of: gives those of other stages theirs.
    """
    shells: dict[str, Any] = {}
    for name, function in vars(PLAIN).items():
        if name in ("round", "final"):
            shells[name] = _round_shell(function, name, name_of)
        else:
            shells[name] = _shell(function, name, label_of)
    return Stages(**shells)


def as_task(function: Callable[..., Any], name: str, label: str = "") -> Callable[..., Any]:
    """``function`` as a Prefect task, to be called with the same positional arguments.

    Args:
        label: of its task runs; none: ``name``.
    """
    return _shell(function, name, lambda *_: label or name)


def _shell(function: Callable[..., Any], name: str, label_of: Label) -> Callable[..., Any]:
    shell = _task(lambda call: function(*call.values), name)
    return lambda *values: shell(_Call(label_of(name, values), values))


def _round_shell(function: Callable[..., Any], name: str, name_of: Name) -> Callable[..., Any]:
    def stage(call: _Call) -> Any:
        finished = function(*call.values)
        context = TaskRunContext.get()
        if finished is not None and context is not None:  # its last event carries the name
            context.task_run.name = name_of(call.values[0], finished)
        return finished

    shell = _task(stage, name)

    def run_round(run: LiveRun, index: int) -> Any:
        kind = "finals" if name == "final" else f"round {run.session.rounds + 1}"
        return shell(_Call(f"{kind}: {run.plan.tasks[index].desc}", (run, index)))

    return run_round


def _task(function: Callable[[_Call], Any], name: str) -> Callable[[_Call], Any]:
    """A Prefect task of one argument, ``call``, which labels its runs."""

    def stage(call: _Call) -> Any:
        return function(call)

    shell: Callable[[_Call], Any] = task(
        name=name,
        task_run_name="{call.label}",
        retries=0,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
    )(stage)
    return shell


class _Call:
    """Arguments, which Prefect would walk through element by element otherwise, and a label."""

    def __init__(self, label: str, values: tuple[Any, ...]) -> None:
        self.label = label
        self.values = values
