"""The stages of a tuning run as one value: plain functions here, Prefect's in `tasks.shells`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks import finish, network, run, stores


@dataclass(frozen=True)
class Stages:
    """What a pipeline calls, in this order; propose to judge once per round or task."""

    extract: Callable[..., Any]
    propose: Callable[..., Any]
    measure: Callable[..., Any]
    store: Callable[..., Any]
    refit: Callable[..., Any]
    judge: Callable[..., Any]
    distill: Callable[..., Any]
    compile: Callable[..., Any]
    check: Callable[..., Any]
    benchmark: Callable[..., Any]


PLAIN = Stages(
    extract=network.extract,
    propose=run.propose,
    measure=run.measure,
    store=run.store,
    refit=run.refit,
    judge=run.judge,
    distill=stores.distill,
    compile=finish.compile_modules,
    check=finish.check,
    benchmark=finish.benchmark,
)
