"""Whether a Prefect server is configured, and whether it answers.

A run without a server must not start one: an ephemeral server takes ten seconds and more to come
up, may be left behind, and holds a SQLite file that other runs then find locked. So the command
line runs the plain pipeline unless a server is configured (docs/prefect.md).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    """A Prefect API; ``url`` is empty when none is configured."""

    url: str
    reachable: bool
    detail: str = ""


def configured_server(timeout_s: float = 3.0) -> Server:
    """Look up the API URL in Prefect's settings (environment, profile) and ask for its health."""
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url or ""
    if not url:
        return Server("", False, "no server configured")
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/health", timeout=timeout_s)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Server(url, False, f"{type(error).__name__}: {error}")
    return Server(url, True)
