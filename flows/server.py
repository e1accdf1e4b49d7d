"""Whether a Prefect server is configured, and whether it answers.

A run without a server must not start one: an ephemeral server takes ten seconds and more to come
up, may be left behind, and holds a SQLite file that other runs then find locked. So the command
line runs the plain pipeline unless a server is configured (docs/prefect.md).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 3.0


@dataclass(frozen=True)
class Server:
    """A Prefect API; ``url`` is empty when none is configured."""

    url: str
    reachable: bool
    detail: str = ""

    @property
    def shown(self) -> str:
        """The address as it may be shown: without a password."""
        from storage.uris import shown

        return shown(self.url)


def configured_server() -> Server:
    """Look up the API URL in Prefect's settings (environment, profile) and ask for its health."""
    nowhere = Server("", False, "no server configured")
    if not _mentions_url():
        return nowhere
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url or ""
    if not url:
        return nowhere
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/health", timeout=_PATIENCE_S)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        from storage.uris import without_secrets

        return Server(url, False, f"{type(error).__name__}: {without_secrets(str(error), url)}")
    return Server(url, True)


def _mentions_url() -> bool:
    """Whether any place where Prefect finds its settings speaks of an API URL.

    Importing Prefect takes a second and prints its telemetry notice; most runs need neither.
    """
    if any("API_URL" in name or name == "PREFECT_PROFILE" for name in os.environ):
        return True
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
    places = [profiles, Path("prefect.toml"), Path(".env"), Path("pyproject.toml")]
    return any(_speaks_of_prefect_api(place) for place in places)


def _speaks_of_prefect_api(place: Path) -> bool:
    try:
        text = place.read_text(encoding="utf-8").lower()
    except (OSError, UnicodeDecodeError):
        return False
    return "prefect" in text and ("api_url" in text or "[api]" in text or ".api]" in text)
