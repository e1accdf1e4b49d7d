"""Whether a command's run is a Prefect flow or plain: one rule for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.reporting import Reporter


def wants_flow(prefect: bool | None, reporter: Reporter) -> bool:
    """Whether to run under Prefect: on request, or when a configured server answers.

    Args:
        prefect: what the user asked for; None if that is left to us.
        reporter: gets a line that says what was chosen, where it needs one.

    Raises:
        TileworkError: Prefect was asked for, and the configured server does not answer.
    """
    from flows.server import configured_server
    from tilework.errors import TileworkError

    if prefect is False:
        return False
    server = configured_server()
    if server.reachable:
        reporter.note(f"Prefect server {server.shown}: this run shows in its UI")
        return True
    if prefect and server.url:
        raise TileworkError(f"the Prefect server {server.shown} does not answer ({server.detail})")
    if prefect:
        reporter.note("no Prefect server is configured: starting a temporary one (slow)")
        return True
    if server.url:
        reporter.note(f"the Prefect server {server.shown} does not answer: running without it")
    return False
