"""A flow run in this process, for commands: the caller's reporter talks, not Prefect's log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import (
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from flows.interrupts import usual
from flows.shell.published import close_publishers

if TYPE_CHECKING:
    from collections.abc import Callable

Settings = TypeVar("Settings")
Result = TypeVar("Result")


def run_here(flow: Callable[[Settings], Result], settings: Settings) -> Result:
    """What a flow of one parameter, ``settings``, returns."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.setLevel(logging.CRITICAL)
    # a temporary server on a busy machine takes longer to start than Prefect expects
    patience = {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 120}
    with temporary_settings(patience), usual():
        try:
            return flow(settings)
        finally:
            close_publishers()
