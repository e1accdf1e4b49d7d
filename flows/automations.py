"""What a Prefect server does by itself: the automations and queues of `automations.yaml`, applied.

Applying creates what is not there and updates what is otherwise, by name; doing it again changes
nothing. What the file does not name is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tilework.errors import TileworkError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import AutomationCore

FILE = Path(__file__).with_name("automations.yaml")
"""The automations that come with Tilework."""

TOLD_FOR = timedelta(days=7)
"""How far back `firings` looks where it is not said."""

_TRIGGERED = "prefect.automation.triggered"
_EXECUTED = "prefect.automation.action.executed"
_PAGES = 10

Change = Literal["created", "updated", "unchanged"]


class AutomationsError(TileworkError):
    """An automations file that cannot be read, or a server that does not take it."""


class AutomationsFile(BaseModel):
    """What stands in an automations file; see the one that comes with Tilework."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: str = Field(description="The work pool of all deployments")
    queues: dict[str, int] = Field({}, description="How many runs at a time each queue allows")
    variables: dict[str, str] = Field({}, description="Variables, and what they are at first")
    ours: dict[str, Any] = Field({}, description="What runs of ours are told by; for `*ours`")
    automations: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Applied:
    """What became of one queue or automation."""

    kind: Literal["pool", "queue", "variable", "automation"]
    name: str
    change: Change


@dataclass(frozen=True)
class Firing:
    """An automation that did something.

    Attributes:
        subject: the run, device, or whatever else it was about; empty if that is not known.
    """

    at: datetime
    automation: str
    subject: str


def read_file(path: str | Path = FILE) -> AutomationsFile:
    """Read an automations file.

    Raises:
        AutomationsError: it cannot be read, or something in it is not what it should be.
    """
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return AutomationsFile.model_validate(document)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AutomationsError(f"cannot read {str(path)!r}: {error}") from None
    except ValidationError as error:
        raise AutomationsError(f"{str(path)!r}: {_first(error)}") from None


def with_alerts(automations: AutomationsFile, block_id: str = "") -> tuple[AutomationCore, ...]:
    """The automations as the server takes them.

    Args:
        automations: as read from a file.
        block_id: the notification block that alerts go to; without one an alert does nothing but
            leave its event in the server's feed.

    Raises:
        AutomationsError: one of them is not an automation.
    """
    from prefect.events.schemas.automations import AutomationCore

    alerts = []
    for document in automations.automations:
        actions = [_action(dict(action), block_id) for action in document.get("actions", ())]
        try:
            alerts.append(AutomationCore.model_validate({**document, "actions": actions}))
        except ValidationError as error:
            raise AutomationsError(
                f"automation {document.get('name')!r}: {_first(error)}"
            ) from None
    return tuple(alerts)


def apply_automations(
    client: SyncPrefectClient, automations: AutomationsFile, notify: str = ""
) -> list[Applied]:
    """Create or update the pool, its queues' limits and all automations; make missing variables.

    Args:
        client: of the server.
        automations: as read from a file.
        notify: ``TYPE/NAME`` of the notification block that alerts go to, such as
            ``slack-webhook/on-call``; empty for none.

    Raises:
        AutomationsError: there is no such block, or an automation makes no sense.
    """
    wanted = with_alerts(automations, _block_id(client, notify) if notify else "")
    done = [_apply_pool(client, automations.pool)]
    for name, limit in automations.queues.items():
        done.append(_apply_queue(client, automations.pool, name, limit))
    done += [_apply_variable(client, name, value) for name, value in automations.variables.items()]
    return [*done, *(_apply_automation(client, one) for one in wanted)]


def firings(
    client: SyncPrefectClient, automations: AutomationsFile, since: timedelta = TOLD_FOR
) -> list[Firing]:
    """What the automations did of late, the latest first; at most some 200.

    Only what was really done: after a restart the server hears of a run's end late, takes it for
    silent and finds that it has ended.
    """
    names = {str(document.get("name")) for document in automations.automations}
    now = datetime.now().astimezone()
    body = {
        "filter": {
            "event": {"name": [_TRIGGERED, _EXECUTED]},
            "occurred": {"since": (now - since).isoformat(), "until": now.isoformat()},
            "order": "DESC",
        },
        "limit": 50,  # the most that it gives at a time
    }
    page = client._client.post("/events/filter", json=body)
    events: list[dict[str, Any]] = []
    for _ in range(_PAGES):
        answer = page.raise_for_status().json()
        events += answer["events"]
        if not answer.get("next_page"):
            break
        page = client._client.get(answer["next_page"])
    reasons = {f"prefect.event.{event['id']}": event for event in events}
    return [
        Firing(
            datetime.fromisoformat(event["occurred"].replace("Z", "+00:00")),
            event["resource"]["prefect.resource.name"],
            _subject(reasons, event),
        )
        for event in events
        if event["event"] == _EXECUTED and event["resource"].get("prefect.resource.name") in names
    ]


def _subject(reasons: Mapping[str, dict[str, Any]], done: dict[str, Any]) -> str:
    """What an action was about, by the event that says why it was done."""
    for related in done.get("related", ()):
        reason = reasons.get(related.get("prefect.resource.id", ""))
        if related.get("prefect.resource.role") == "automation-triggered-event" and reason:
            event = reason["payload"].get("triggering_event") or {}
            return str((event.get("resource") or {}).get("prefect.resource.name") or "")
    return ""


def _first(error: ValidationError) -> str:
    """The first complaint, and where it is."""
    what = error.errors()[0]
    return f"{'.'.join(str(part) for part in what['loc'])}: {what['msg']}"


def is_alert(document: Mapping[str, Any]) -> bool:
    """Whether an automation of a file tells somebody something."""
    return any(action.get("type") == "alert" for action in document.get("actions", ()))


def _action(action: dict[str, Any], block_id: str) -> dict[str, Any]:
    if action.get("type") != "alert":
        return action
    if not block_id:
        return {"type": "do-nothing"}
    return {**action, "type": "send-notification", "block_document_id": block_id}


def _block_id(client: SyncPrefectClient, notify: str) -> str:
    from prefect.exceptions import ObjectNotFound

    kind, _, name = notify.partition("/")
    try:
        return str(client.read_block_document_by_name(name, kind).id)
    except ObjectNotFound:
        raise AutomationsError(
            f"the server has no notification block {notify!r}: make one in its UI under Blocks, "
            "and name it as TYPE/NAME, such as slack-webhook/on-call"
        ) from None


def _apply_pool(client: SyncPrefectClient, name: str) -> Applied:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=name, type="process"))
        return Applied("pool", name, "created")
    return Applied("pool", name, "unchanged")


def _apply_queue(client: SyncPrefectClient, pool: str, name: str, limit: int) -> Applied:
    from prefect.exceptions import ObjectNotFound

    try:
        queue = client.read_work_queue_by_name(name, work_pool_name=pool)
    except ObjectNotFound:
        client.create_work_queue(name, concurrency_limit=limit, work_pool_name=pool)
        return Applied("queue", name, "created")
    if queue.concurrency_limit == limit:
        return Applied("queue", name, "unchanged")
    client.update_work_queue(queue.id, concurrency_limit=limit)
    return Applied("queue", name, "updated")


def _apply_variable(client: SyncPrefectClient, name: str, value: str) -> Applied:
    """Makes a variable that is missing; what a team has set stays."""
    from prefect.client.schemas.actions import VariableCreate

    if client.read_variable_by_name(name) is not None:
        return Applied("variable", name, "unchanged")
    client.create_variable(VariableCreate(name=name, value=value))
    return Applied("variable", name, "created")


def _apply_automation(client: SyncPrefectClient, wanted: AutomationCore) -> Applied:
    known = client.read_automations_by_name(wanted.name)
    if not known:
        client.create_automation(wanted)
        return Applied("automation", wanted.name, "created")
    if _content(known[0]) == _content(wanted):
        return Applied("automation", wanted.name, "unchanged")
    client.update_automation(known[0].id, wanted)
    return Applied("automation", wanted.name, "updated")


def _content(automation: AutomationCore) -> dict[str, Any]:
    """What of an automation the file decides; whether it is paused, a person does.

    As Python's values, not as JSON: of the events that a trigger expects there is a set, and a
    list made of it has another order from one process, even from one copy, to the next.
    """
    return automation.model_dump(include={"name", "description", "trigger", "actions"})
