"""A flow run as its body sees it: a name, tags, pages and lines, published from the side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext, TagsContext
from prefect.events import emit_event
from prefect.logging import get_run_logger

from flows.shell.items import Item
from flows.shell.journal import folder_of
from flows.shell.publisher import Publisher
from flows.shell.redirect import end_anyway, know_relations, redirect
from flows.shell.sender import Sender
from tasks.patience import patiently
from tasks.stores import is_there

_publishers: dict[str, Publisher] = {}
_lock = threading.Lock()


class PublishedRun:
    """The flow run that is under way; nothing of this waits for the server."""

    def __init__(self, flow_run: FlowRun, publisher: Publisher) -> None:
        self.id = str(flow_run.id)
        self.publisher = publisher
        self._tags = set(flow_run.tags)
        self._log = get_run_logger()

    def info(self, text: str) -> None:
        """A line of the run's log."""
        self._log.info("%s", text)

    def warning(self, text: str) -> None:
        """A line of the run's log that asks for attention."""
        self._log.warning("%s", text)

    def describe(self, name: str = "", tags: Iterable[str] = ()) -> None:
        """Name the run, and add tags to it."""
        self._tags |= set(tags)
        body: dict[str, Any] = {"flow_run_id": self.id, "tags": sorted(self._tags)}
        if name:
            body["name"] = name
        self.publisher.put(Item("run", body))

    def nothing_yet(self, name: str, stores: Iterable[str], what: str) -> bool:
        """Whether none of the stores is there yet; the run's log and its name say so then.

        A schedule starts before the first tuning run has made a store. That is no failure, and
        nobody is to be woken for it.

        Args:
            name: of the run, so far.
            stores: paths or URIs; a run of several has something to do if one is there.
            what: there is nothing to do yet, in words.

        Raises:
            StoreError: a store cannot be looked for.
        """
        places = list(stores)
        if any(patiently(partial(is_there, place), self.warning) for place in places):
            return False
        shown = ", ".join(repr(place) for place in places)
        self.info(f"{what}: there is no record store at {shown}; the first tuning run makes it")
        self.describe(f"{name} · {what}")
        return True

    def page(self, key: str, text: str, description: str = "") -> None:
        """Show ``text`` (Markdown) as the artifact ``key`` of this run; a later text replaces it.

        ``key`` is of lower-case letters, digits and dashes (`flows.shell.names.artifact_key`).
        """
        body = {
            "flow_run_id": self.id,
            "key": key,
            "type": "markdown",
            "data": text,
            "description": description,
        }
        self.publisher.put(Item("page", body))

    def event(
        self, name: str, resource: Mapping[str, str], payload: Mapping[str, Any] | None = None
    ) -> None:
        """Emit a Prefect event; ``resource`` has at least ``prefect.resource.id``."""
        emit_event(name, dict(resource), payload=dict(payload or {}))


@contextmanager
def published(
    name: str = "", tags: Iterable[str] = (), tell: Callable[[str], None] | None = None
) -> Iterator[PublishedRun]:
    """The body of a flow, as seen by the server: logs, events and the end come from the side.

    Task runs in this block have no tags: Prefect would ask the server for leave before each.

    Args:
        name: of the flow run.
        tags: of the flow run, beside those of its deployment.
        tell: gets a line, beside the run's log, when the server goes away or comes back.

    Raises:
        RuntimeError: outside of a flow.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("published() belongs into the body of a flow")
    client = context.client
    assert isinstance(client, SyncPrefectClient), "flows of Tilework are synchronous"
    publisher = publisher_for(str(client.api_url))
    know_relations(context.flow_run, context.flow.name if context.flow else "")
    redirect(publisher)
    end_anyway(client, publisher)
    run = PublishedRun(context.flow_run, publisher)
    run.describe(name, tags)
    publisher.put(Item("coming", {}, fleeting=True))  # the next run does it, too
    publisher.tell = _both(run.warning, tell)
    with TagsContext(current_tags=set()):
        yield run


def _both(
    first: Callable[[str], None], second: Callable[[str], None] | None
) -> Callable[[str], None]:
    def tell(text: str) -> None:
        first(text)
        if second is not None:
            second(text)

    return tell


def publisher_for(url: str) -> Publisher:
    """This process's publisher to the API at ``url``; it ends with the process."""
    with _lock:
        if url not in _publishers or _publishers[url].closed:
            _publishers[url] = Publisher(folder_of(url), Sender())
        return _publishers[url]


def close_publishers() -> None:
    """Send what can be sent, and keep the rest for later."""
    with _lock:
        for publisher in _publishers.values():
            publisher.close()
        _publishers.clear()
