"""What the records cover: networks, targets and devices, and how far each is tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tasks.analysis.frames import NEEDED_BY_BEST, best_rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (*NEEDED_BY_BEST, "network", "rules_version")


@dataclass(frozen=True)
class Covered:
    """One network on one target and device.

    Attributes:
        tasks: of the network; what its records name, where the network itself is not at hand.
        measured: tasks with a latency that a compile uses.
        final: of these, tasks whose best was chosen by finals.
        trials: measurements of the search for these tasks, whichever network they were made for.
        stale: records of these tasks that no compile uses: other rules made their schedules.
        last: when the newest record was made.
    """

    network: str
    target: str
    device: str
    tasks: int
    measured: int
    final: int
    trials: int
    stale: int
    last: datetime

    @property
    def share(self) -> float:
        """Measured tasks over all."""
        return self.measured / self.tasks if self.tasks else 0.0


def coverage(
    frame: pd.DataFrame,
    rules: Callable[[str], int | None],
    networks: Mapping[tuple[str, str], frozenset[str]] | None = None,
) -> list[Covered]:
    """A row for each network, target and device that has records; the best covered first.

    Args:
        frame: records, with `COLUMNS`.
        rules: the present version of the rules for a target's text (`tasks.stores.rules_version`).
        networks: workload keys of networks, by network and target's text. Tasks that networks
            share count for each of them. Without it a network is what its own records name.
    """
    if frame.empty:
        return []
    frame = frame[frame["purpose"] != "canary"]
    present = {text: rules(str(text)) for text in frame["target"].unique()}
    fresh = (frame["rules_version"] == frame["target"].astype(object).map(present)).to_numpy()
    best = best_rows(frame[fresh])
    best = best.assign(final=best["purpose"] == "final")
    trials = frame.assign(
        trial=(frame["purpose"] == "search").to_numpy() & fresh, stale=~fresh
    ).groupby(["target", "machine", "workload_key"], observed=True, sort=False)
    per = trials.agg(
        trials=("trial", "sum"), stale=("stale", "sum"), last=("created_at", "max")
    ).reset_index()
    per = per.merge(
        best[["target", "machine", "workload_key", "final"]].assign(measured=True), how="left"
    )
    out = []
    for (target, machine), part in per.groupby(["target", "machine"], observed=True):
        for network, keys in _networks(frame, networks, str(target)).items():
            rows = part[part["workload_key"].isin(keys)]
            if rows.empty:
                continue
            out.append(
                Covered(
                    network,
                    str(target),
                    str(machine),
                    len(keys),
                    int(rows["measured"].notna().sum()),
                    int((rows["final"] == True).sum()),  # noqa: E712 (missing is neither)
                    int(rows["trials"].sum()),
                    int(rows["stale"].sum()),
                    rows["last"].max().to_pydatetime(),
                )
            )
    return sorted(out, key=lambda one: (one.target, one.device, -one.share, one.network))


def _networks(
    frame: pd.DataFrame,
    networks: Mapping[tuple[str, str], frozenset[str]] | None,
    target: str,
) -> dict[str, frozenset[str]]:
    if networks is not None:
        return {name: keys for (name, text), keys in networks.items() if text == target}
    rows = frame.loc[frame["target"] == target, ["network", "workload_key"]].drop_duplicates()
    return {
        str(network): frozenset(part["workload_key"])
        for network, part in rows.groupby("network", observed=True)
    }
