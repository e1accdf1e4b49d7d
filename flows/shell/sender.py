"""Requests to Prefect's API, one kind of item each, and what their failures mean."""

from __future__ import annotations

import contextvars
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities.urls import url_for

from flows.shell.coming import name_coming
from flows.shell.items import Item
from flows.shell.lacking import lacks
from flows.shell.pages import BEFORE

PASSING = {401, 403, 408, 425, 429}  # besides 5xx: busy, or behind a login for now


SETTLED_S = 8.0  # within so many seconds a server writes down what it took


class Unreachable(Exception):
    """The server does not answer, or not sensibly; what was to be sent is sent later.

    Attributes:
        slow: it is there, and may have taken what it was sent.
    """

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


def impatient_context() -> contextvars.Context:
    """A copy of the present context in which Prefect's clients do not retry by themselves."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        return contextvars.copy_context()


class Sender:
    """Sends items with an API client of its own, which gives up quickly and never retries."""

    def __init__(self) -> None:
        self.refused = 0  # items that the server will never take
        self._client: SyncPrefectClient | None = None
        self._pages: dict[tuple[str, str], str] = {}  # ids of artifacts
        self._links: dict[tuple[str, str], str] = {}  # to the run before each

    def alive(self) -> bool:
        """Whether the server says that it is well."""
        try:
            return self._ask("GET", "/health").status_code == 200
        except (Unreachable, _Refused):
            return False

    def send(self, group: Sequence[Item]) -> None:
        """Send items of one kind.

        Raises:
            Unreachable: the server is away.
        """
        try:
            match group[0].kind:
                case "log":
                    self._ask("POST", "/logs/", [item.body for item in group])
                case "event":
                    self._ask("POST", "/events", [item.body for item in group])
                case "run":
                    self._for_each(group, "PATCH", "/flow_runs/{flow_run_id}")
                case "state":
                    self._for_each(group, "POST", "/flow_runs/{flow_run_id}/set_state")
                case "coming":
                    name_coming(self._ask)
                case "page":
                    for item in group:
                        self._page(item.body)
        except _Refused:
            if len(group) == 1:
                self.refused += 1
                return
            for item in group:  # one bad item must not take the others with it
                self.send([item])

    def send_again(self, group: Sequence[Item]) -> None:
        """Send items of one kind that the server may have already: only what it lacks.

        Raises:
            Unreachable: the server is away.
        """
        try:
            lacking = lacks(self._ask, group)
        except _Refused:  # it cannot say
            lacking = list(group)
        if lacking:
            self.send(lacking)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.__exit__(None, None, None)
            self._client = None

    def _for_each(self, group: Sequence[Item], method: str, path: str) -> None:
        for item in group:
            body = {name: value for name, value in item.body.items() if name != "flow_run_id"}
            self._ask(method, path.format(flow_run_id=item.body["flow_run_id"]), body)

    def _page(self, body: dict[str, Any]) -> None:
        """Update the artifact of this key and run, or make it."""
        key = body["key"], body["flow_run_id"]
        body = {**body, "data": body["data"].replace(BEFORE, self._before(*key))}
        if key not in self._pages:
            wanted = {"key": {"any_": [key[0]]}, "flow_run_id": {"any_": [key[1]]}}
            pages = self._ask("POST", "/artifacts/filter", {"artifacts": wanted}).json()
            if not pages:
                self._pages[key] = self._ask("POST", "/artifacts/", body).json()["id"]
                return
            self._pages[key] = pages[0]["id"]
        shown = {"data": body["data"], "description": body["description"]}
        self._ask("PATCH", f"/artifacts/{UUID(self._pages[key])}", shown)

    def _before(self, key: str, flow_run_id: str) -> str:
        """A link to the run whose page of this key came before this run's."""
        if (key, flow_run_id) not in self._links:
            asked = {"artifacts": {"key": {"any_": [key]}}, "sort": "CREATED_DESC", "limit": 20}
            pages = self._ask("POST", "/artifacts/filter", asked).json()
            runs = [one["flow_run_id"] for one in pages]
            later = runs[runs.index(flow_run_id) + 1 :] if flow_run_id in runs else runs
            before = next((run for run in later if run and run != flow_run_id), None)
            link = "none" if before is None else self._link(before)
            self._links[key, flow_run_id] = link
        return self._links[key, flow_run_id]

    def _link(self, flow_run_id: str) -> str:
        run = self._ask("GET", f"/flow_runs/{UUID(flow_run_id)}").json()
        began = (run["start_time"] or run["created"])[:16].replace("T", " ")
        url = url_for("flow-run", obj_id=flow_run_id) or f"/runs/flow-run/{flow_run_id}"
        return f"[{run['name']}, {began} UTC]({url})"

    def _ask(self, method: Any, path: Any, body: Any = None) -> httpx.Response:
        try:
            if self._client is None:
                timeout = httpx.Timeout(10.0, connect=2.0)
                self._client = get_client({"timeout": timeout}, sync_client=True).__enter__()
            return self._client.request(method, path, json=body)
        except PrefectHTTPStatusError as error:
            status = error.response.status_code
            if status >= 500 or status in PASSING:
                raise Unreachable(f"HTTP {status}", slow=True) from None
            raise _Refused(f"HTTP {status}") from None
        except httpx.ReadTimeout:
            raise Unreachable("it takes too long", slow=True) from None
        except (httpx.HTTPError, OSError, RuntimeError) as error:
            raise Unreachable(_reason(error)) from None


def _reason(error: Exception) -> str:
    """What is wrong in few words, such as ``Connection refused``."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)).lower() or type(error).__name__


class _Refused(Exception):
    """The server understands and says no, today and tomorrow."""
