"""Where Prefect's own talk with its server is turned to the publisher.

Prefect sends events and logs from threads that give up after seven and sixty seconds, one item
after the other, and it asks for a flow run's final state where the flow ends. Here all of it is
handed to the publisher, through the doors that Prefect has for its own worker processes.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect.client.schemas.responses import (
    OrchestrationResult,
    SetStateStatus,
    StateAcceptDetails,
)
from prefect.events.related import RESOURCE_CACHE
from prefect.events.worker import EventsWorker, ProcessPoolForwardingEventsClient
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker, set_api_log_sink
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import to_state_create
from prefect.types import DateTime

from flows.shell.items import Item
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State
    from prefect.events import Event

    from flows.shell.publisher import Publisher

HEARTBEAT = "prefect.flow-run.heartbeat"
END_S = 5.0  # what the last lines of a run get to arrive before its final state


def redirect(publisher: Publisher) -> None:
    """Hand events and logs of this process to ``publisher`` from now on."""
    EventsWorker.set_client_override(
        ProcessPoolForwardingEventsClient, event_queue=_Events(publisher)
    )
    set_api_log_sink(_Logs(publisher).put)
    ours = contextvars.copy_context()  # whose settings say where the server is
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)  # it counts at its end
    earlier = threading.Thread(target=ours.run, args=(_send_earlier_lines,), daemon=True)
    earlier.start()
    earlier.join(END_S)
    # "Finished in state Completed()" of every task run would drown the lines of the rounds
    logging.getLogger("prefect.task_runs").setLevel(logging.WARNING)
    for name in ("prefect.task_runs", "prefect.flow_runs"):
        logging.getLogger(name).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Let an error that is meant for people keep its line and lose its traceback."""
    if record.exc_info and isinstance(record.exc_info[1], TileworkError):
        record.exc_info = record.exc_text = None
    return True


def _send_earlier_lines() -> None:
    """Lines from before the body of the flow are on Prefect's own way to the server."""
    APILogWorker.instance().drain()


class _Events:
    """What Prefect takes for the queue of a parent process."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def put(self, item: tuple[str, Event]) -> None:
        event = item[1]
        if event.event.startswith("prefect.task-run.Pending"):
            return  # a run that starts at once: its next event says all of it
        body = event.model_dump(mode="json")
        self._publisher.put(Item("event", body, fleeting=event.event == HEARTBEAT))


class _Logs:
    """What Prefect takes for the way to a parent process's log."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def put(self, log: dict[str, Any]) -> None:
        body = {name: value for name, value in log.items() if name != "__payload_size__"}
        self._publisher.put(Item("log", body))


def know_relations(flow_run: FlowRun, flow_name: str) -> None:
    """Tell Prefect what events of this run are related to, so that it need not ask the server.

    It asks before it hands on the first event; an event whose question fails is lost.
    """
    related = {
        "flow": (flow_run.flow_id, flow_name),
        "deployment": (flow_run.deployment_id, f"{flow_name}, deployed"),
        "work-queue": (flow_run.work_queue_id, flow_run.work_queue_name),
        "work-pool": (flow_run.work_pool_name, flow_run.work_pool_name),
    }
    now = DateTime.now("UTC")
    for kind, (key, name) in related.items():
        if key is not None:
            known: Any = SimpleNamespace(id=key, name=name or str(key))
            RESOURCE_CACHE.setdefault(f"{kind}.{key}", ({"kind": kind, "object": known}, now))


def end_anyway(client: SyncPrefectClient, publisher: Publisher) -> None:
    """Let the flow run that ``client`` speaks for end without the server, if it must.

    Its final state is then published later, like all the rest.
    """
    ask = client.set_flow_run_state

    def set_flow_run_state(
        flow_run_id: UUID | str, state: State, force: bool = False
    ) -> OrchestrationResult[Any]:
        if not state.is_final():
            return ask(flow_run_id, state, force=force)
        publisher.flush(END_S)
        if not publisher.away:
            try:
                with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}):
                    return ask(flow_run_id, state, force=force)
            except (httpx.HTTPError, PrefectHTTPStatusError) as error:
                if not _passing(error):
                    raise
        ended = f"ended {state.timestamp:%Y-%m-%d %H:%M:%S} UTC while the server was away"
        state.message = "; ".join(filter(None, [state.message, ended]))
        wanted = to_state_create(state).model_dump(mode="json", serialize_as_any=True)
        body = {"flow_run_id": str(flow_run_id), "state": wanted, "force": True}
        publisher.put(Item("state", body))
        return OrchestrationResult(
            state=state, status=SetStateStatus.ACCEPT, details=StateAcceptDetails()
        )

    client.set_flow_run_state = set_flow_run_state  # type: ignore[method-assign]


def _passing(error: Exception) -> bool:
    if isinstance(error, PrefectHTTPStatusError):
        return error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)
