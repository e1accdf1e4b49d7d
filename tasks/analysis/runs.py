"""What runs measured: one row for each run, network and target."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tilework.measure.drift import LIMIT as DRIFT

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "run_id", "round", "created_at", "workload_key", "network", "target", "device", "device_id",
    "host", "status", "purpose", "latency_s", "calibration_s",
)  # fmt: skip


@dataclass(frozen=True)
class RunSummary:
    """What a run measured for one network, target and device.

    Attributes:
        rounds, tasks: that have records; ``drifted`` are rounds in which the machine was further
            off the run's usual speed than 5 %.
        trials, finals: measurements of the search, and of finals; ``canaries`` of neither.
        failed: candidates without a latency, by how they ended, those refused included.
        first, last: when its first and its newest round ended.
    """

    run_id: str
    network: str
    target: str
    device: str
    rounds: int
    drifted: int
    tasks: int
    trials: int
    finals: int
    canaries: int
    failed: dict[str, int]
    first: datetime
    last: datetime


def runs(frame: pd.DataFrame) -> list[RunSummary]:
    """One row for each run, network, target and device, in the order in which they began."""
    keys = ["run_id", "network", "target", "machine"]
    if frame.empty:
        return []
    number = frame.groupby(keys, observed=True, sort=False).ngroup()
    frame = frame.assign(number=number)
    purposes = _counts(frame, "purpose")
    failures = _counts(frame[~frame["usable"]], "status")
    drifted = _drifted(frame)
    groups = frame.groupby("number", sort=False)
    table = groups.agg(
        run_id=("run_id", "first"),
        network=("network", "first"),
        target=("target", "first"),
        machine=("machine", "first"),
        first=("created_at", "min"),
        last=("created_at", "max"),
        tasks=("workload_key", "nunique"),
        rounds=("round", "nunique"),
    )
    out = []
    for row in table.itertuples():
        purpose = purposes.get(row.Index, {})
        out.append(
            RunSummary(
                str(row.run_id),
                str(row.network),
                str(row.target),
                str(row.machine),
                int(row.rounds),
                drifted.get(row.Index, 0),
                int(row.tasks),
                purpose.get("search", 0),
                purpose.get("final", 0),
                purpose.get("canary", 0),
                failures.get(row.Index, {}),
                row.first.to_pydatetime(),
                row.last.to_pydatetime(),
            )
        )
    return sorted(out, key=lambda one: (one.first, one.run_id, one.network))


def _counts(frame: pd.DataFrame, column: str) -> dict[int, dict[str, int]]:
    """How often each value of ``column`` occurs in each numbered group, the commonest first."""
    counts: dict[int, dict[str, int]] = {}
    counted = frame.groupby(["number", column], observed=True).size()
    for (number, value), count in counted.sort_values(ascending=False, kind="stable").items():
        counts.setdefault(number, {})[str(value)] = int(count)
    return counts


def _drifted(frame: pd.DataFrame) -> dict[int, int]:
    """Rounds of each group whose calibration is noticeably off the median of the group's."""
    rounds = (
        frame.dropna(subset=["calibration_s"])
        .groupby(["number", "round"])["calibration_s"]
        .median()
        .reset_index()
    )
    if rounds.empty:
        return {}
    usual = rounds.groupby("number")["calibration_s"].transform("median")
    off = (rounds["calibration_s"] / usual - 1.0).abs() > DRIFT
    return {int(key): int(count) for key, count in off.groupby(rounds["number"]).sum().items()}
