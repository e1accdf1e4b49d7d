"""Names of runs that are to come: until they begin, Prefect calls them such as `calm-turkey`.

The server makes the runs of a schedule ahead of time, three of each, and has no setting for their
names. So each run of ours, and `tilework automations apply`, names those that there are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from flows.shell.lacking import Ask

TAG = "tilework"
"""What all deployments of ours are tagged with."""
MOST = 200  # runs that are looked at; the server gives no more at a time

_SLUG = re.compile(r"[a-z]+(-[a-z]+)+")


def name_coming(ask: Ask) -> int:
    """Name the scheduled runs of our deployments: ``nightly · 2026-11-24 02:00 UTC``.

    A run that was given another name keeps it, so doing it again changes nothing.

    Returns:
        How many were named.
    """
    wanted = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}, "tags": {"all_": [TAG]}},
        "sort": "EXPECTED_START_TIME_ASC",
        "limit": MOST,
    }
    answer = ask("POST", "/flow_runs/filter", wanted).json()
    runs = [run for run in answer if run["deployment_id"] and _SLUG.fullmatch(run["name"])]
    if not runs:
        return 0
    ids = sorted({run["deployment_id"] for run in runs})
    asked = {"deployments": {"id": {"any_": ids}}}
    names = {one["id"]: one["name"] for one in ask("POST", "/deployments/filter", asked).json()}
    for run in runs:
        if run["deployment_id"] in names:
            ask("PATCH", f"/flow_runs/{run['id']}", {"name": _name(names, run)})
    return len(runs)


def _name(names: dict[str, str], run: dict[str, Any]) -> str:
    at = datetime.fromisoformat(run["expected_start_time"]).astimezone(UTC)
    return f"{names[run['deployment_id']]} · {at:%Y-%m-%d %H:%M} UTC"
