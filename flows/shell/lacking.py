"""What a server lacks of items that it may have got: asked before they are sent again.

A server that is killed has written down some of what it took; one that was slow to answer may
have taken all. Sending twice is no way out: a batch of events that Prefect's server has already
makes it lock its SQLite database for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from flows.shell.items import Item

Ask = Callable[[str, str, Any], Any]
"""Sends a method, a path and a body; the answer has ``json()``."""

PAGE = 50  # events that the server tells of at a time
LINES = 200  # log lines likewise

TASK_RUN = "prefect.task-run."


def lacks(ask: Ask, group: Sequence[Item]) -> list[Item]:
    """The items of a group of one kind that are to be sent again."""
    match group[0].kind:
        case "event":
            return _events(ask, group)
        case "log":
            return _logs(ask, group)
    return list(group)


def _events(ask: Ask, group: Sequence[Item]) -> list[Item]:
    """Events it does not have, and those of task runs that it has and did not heed.

    Its events and its task runs are written at different moments. An event whose task run was not
    written yet goes out under a new id.
    """
    events = {item.body["id"]: item for item in group}
    known: set[str] = set()
    for ids in _parts(list(events), PAGE):
        answer = ask("POST", "/events/filter", {"filter": {"id": {"id": ids}}, "limit": PAGE})
        known |= {one["id"] for one in answer.json()["events"]}
    heard = [item for name, item in events.items() if name in known and _task_run(item)]
    states = _states(ask, {_task_run(item) for item in heard})
    unheeded = [
        Item("event", {**item.body, "id": str(uuid4())})
        for item in heard
        if states.get(_task_run(item), datetime.min) < _time(item.body["occurred"])
    ]
    return [item for name, item in events.items() if name not in known] + unheeded


def _states(ask: Ask, task_runs: set[str]) -> dict[str, datetime]:
    """When each task run got the state that the server knows."""
    states = {}
    for ids in _parts(sorted(task_runs), LINES):
        wanted = {"task_runs": {"id": {"any_": ids}}, "limit": LINES}
        for run in ask("POST", "/task_runs/filter", wanted).json():
            if run["state"] is not None:
                states[run["id"]] = _time(run["state"]["timestamp"])
    return states


def _logs(ask: Ask, group: Sequence[Item]) -> list[Item]:
    """Lines it does not have: none of the same run, time and text."""
    times = sorted((item.body["timestamp"] for item in group), key=_time)
    runs = sorted({item.body["flow_run_id"] for item in group if item.body["flow_run_id"]})
    wanted = {
        "flow_run_id": {"any_": runs},
        "timestamp": {"after_": times[0], "before_": times[-1]},
    }
    known: set[tuple[str, datetime, str]] = set()
    count = full = 0
    while count == full:
        asked = {"logs": wanted, "limit": LINES, "offset": count}
        answer = ask("POST", "/logs/filter", asked).json()
        known |= {_line(one) for one in answer}
        count, full = count + len(answer), full + LINES
    return [item for item in group if _line(item.body) not in known]


def _line(log: dict[str, Any]) -> tuple[str, datetime, str]:
    return str(log["flow_run_id"]), _time(log["timestamp"]), log["message"]


def _task_run(item: Item) -> str:
    """The task run whose state an event changes; empty if it is another event."""
    resource = item.body["resource"]["prefect.resource.id"]
    return resource.removeprefix(TASK_RUN) if resource.startswith(TASK_RUN) else ""


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)  # all are UTC


def _parts(values: list[str], size: int) -> Iterator[list[str]]:
    for at in range(0, len(values), size):
        yield values[at : at + size]
