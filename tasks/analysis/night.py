"""What a night brought: gains of networks and tasks, failures, and how quiet the machine was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.analysis import runs as _runs
from tasks.analysis.failures import Cause, causes
from tasks.analysis.frames import GROUP, NEEDED_BY_BEST, best_rows
from tasks.analysis.runs import RunSummary

if TYPE_CHECKING:
    import pandas as pd

    from tasks.analysis.moments import Moment

COLUMNS = (
    *dict.fromkeys((*NEEDED_BY_BEST, *_runs.COLUMNS)), "engine_version", "error",
)  # fmt: skip

Calls = Callable[[str, str, frozenset[str]], Mapping[str, float] | None]
"""Calls of each workload in a network, by its name, a target's text, and keys that it must have;
None if such a network is not known (`tasks.analysis.networks.calls_of`)."""


_Latencies = Mapping[tuple[str, str, str], float]
_Weights = Mapping[tuple[str, str], Mapping[str, float] | None]


@dataclass(frozen=True)
class TaskGain:
    """A task that the night measured.

    Attributes:
        calls: in the network; 1 where the network is not at hand.
        before_s, after_s: what counted as its best before, if anything, and counts now, if
            anything was valid.
    """

    workload: str
    network: str
    target: str
    device: str
    calls: float
    before_s: float | None
    after_s: float | None

    @property
    def saved_s(self) -> float:
        """Of a run of the network; 0 where there was nothing before, negative if slower."""
        if self.before_s is None or self.after_s is None:
            return 0.0
        return self.calls * (self.before_s - self.after_s)


@dataclass(frozen=True)
class NetworkGain:
    """A network that the night measured, over its tasks that were known before and are now.

    Attributes:
        weighted: whether the calls of each task are known; else each counts once.
        tasks: with a best now; ``new`` had none before, ``better`` and ``worse`` changed.
        before_s, after_s: sums over all tasks that are not new, those included that the night did
            not touch; ``total_s`` is the sum now with the new ones.
    """

    network: str
    target: str
    device: str
    weighted: bool
    tasks: int
    new: int
    better: int
    worse: int
    before_s: float
    after_s: float
    total_s: float


@dataclass(frozen=True)
class Night:
    """All of it. ``runs`` count only what was measured in the night."""

    since: Moment
    runs: tuple[RunSummary, ...]
    networks: tuple[NetworkGain, ...]
    tasks: tuple[TaskGain, ...]
    causes: tuple[Cause, ...]


def night(frame: pd.DataFrame, since: Moment, calls: Calls) -> Night:
    """What the runs since a moment brought; gains that matter most come first.

    Args:
        frame: records, with `COLUMNS`.
        since: when the night began.
        calls: see `Calls`.
    """
    late = frame[frame["created_at"] >= since.at]
    touched = late.loc[late["purpose"].isin(["search", "final"]), [*GROUP, "network", "workload"]]
    touched = touched.drop_duplicates(GROUP).astype(str)
    if touched.empty:
        return Night(since, tuple(_runs.runs(late)), (), (), causes(late))
    networks = set(touched["network"])
    near = frame[frame["network"].isin(networks) | frame["workload_key"].isin(touched[GROUP[0]])]
    then = _latencies(near[near["created_at"] < since.at])
    now = _latencies(near)
    weights = {
        (network, target): calls(network, target, frozenset(part["workload_key"]))
        for (network, target), part in touched.groupby(["network", "target"])
    }
    tasks = _task_gains(touched, then, now, weights)
    return Night(
        since,
        tuple(_runs.runs(late)),
        tuple(_network_gains(near, touched, then, now, weights)),
        tuple(sorted(tasks, key=lambda one: -one.saved_s)),
        causes(late),
    )


def _latencies(frame: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    best = best_rows(frame)
    groups = best[GROUP].astype(str).itertuples(index=False, name=None)
    return dict(zip(groups, best["latency_s"].astype(float), strict=True))


def _task_gains(
    touched: pd.DataFrame, then: _Latencies, now: _Latencies, weights: _Weights
) -> list[TaskGain]:
    out = []
    for row in touched.itertuples(index=False):
        group = (str(row.workload_key), str(row.target), str(row.machine))
        known = weights[str(row.network), str(row.target)] or {}
        out.append(
            TaskGain(
                str(row.workload),
                str(row.network),
                str(row.target),
                str(row.machine),
                float(known.get(str(row.workload_key), 1.0)),
                then.get(group),
                now.get(group),
            )
        )
    return out


def _network_gains(
    near: pd.DataFrame,
    touched: pd.DataFrame,
    then: _Latencies,
    now: _Latencies,
    weights: _Weights,
) -> list[NetworkGain]:
    out = []
    places = touched[["network", "target", "machine"]].drop_duplicates()
    for network, target, machine in places.itertuples(index=False, name=None):
        known = weights[network, target]
        tasks = known or dict.fromkeys(_keys(near, network, target), 1.0)
        pairs = [
            (weight, then.get((key, target, machine)), now.get((key, target, machine)))
            for key, weight in tasks.items()
        ]
        both = [(w, b, a) for w, b, a in pairs if b is not None and a is not None]
        out.append(
            NetworkGain(
                network,
                target,
                machine,
                known is not None,
                sum(a is not None for _, _, a in pairs),
                sum(a is not None and b is None for _, b, a in pairs),
                sum(a < b for _, b, a in both),
                sum(a > b for _, b, a in both),
                float(sum(w * b for w, b, _ in both)),
                float(sum(w * a for w, _, a in both)),
                float(sum(w * a for w, _, a in pairs if a is not None)),
            )
        )
    return sorted(out, key=lambda one: one.after_s - one.before_s)


def _keys(near: pd.DataFrame, network: str, target: str) -> list[str]:
    """Workloads that the records name as this network's."""
    own = near.loc[(near["network"] == network) & (near["target"] == target)]
    return [str(key) for key in own["workload_key"].unique()]
