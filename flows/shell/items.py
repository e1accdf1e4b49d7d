"""What is published: small values that survive as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["log", "event", "run", "page", "coming", "state"]
"""``log``: a log line. ``event``: an event of Prefect's; a task run's states are events. ``run``:
name and tags of a flow run. ``page``: an artifact that is updated in place. ``coming``: runs that
are to come want names. ``state``: the final state of a flow run."""

ORDER: tuple[Kind, ...] = get_args(Kind)  # a run is over when all the rest of it is published

GROUP = 200  # items in one request


@dataclass(frozen=True)
class Item:
    """One thing to publish; sending it twice does no harm beyond a log line that stands twice.

    Attributes:
        kind: where it belongs.
        body: what the API is sent, ready for JSON.
        fleeting: of no use when it is late, like a heartbeat: never kept.
    """

    kind: Kind
    body: dict[str, Any]
    fleeting: bool = False

    def line(self) -> str:
        """The item as a line of JSON."""
        return json.dumps({"kind": self.kind, "body": self.body}, separators=(",", ":"))

    @classmethod
    def of_line(cls, line: str) -> Item | None:
        """The item that `line` wrote; None if the line was cut off in writing."""
        try:
            document = json.loads(line)
            return cls(document["kind"], document["body"])
        except (ValueError, KeyError, TypeError):
            return None


def groups(items: Iterable[Item]) -> list[list[Item]]:
    """Items that one request takes, each group of one kind, in the order of `ORDER`.

    Of the versions of a page, only the last is left.
    """
    by_kind: dict[Kind, list[Item]] = {kind: [] for kind in ORDER}
    for item in items:
        by_kind[item.kind].append(item)
    last = {(i.body["flow_run_id"], i.body["key"]): i for i in by_kind["page"]}
    by_kind["page"] = list(last.values())
    parts = []
    for kind, same in by_kind.items():
        size = GROUP if kind in ("log", "event") else 1
        parts += [same[at : at + size] for at in range(0, len(same), size)]
    return parts
