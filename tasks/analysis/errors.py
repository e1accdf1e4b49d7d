"""Where the models err: what was predicted beside what was measured.

Scores of a model compare within one task only, and within one round surely; so every figure here
looks at the candidates of a round side by side. A round holds what the model liked best, and its
differences are small: an order that is little better than chance inside a round is still one that
was far better over the whole space. Compare models, tasks and times with each other; do not read
the figures as a model's quality (`benchmarks/regret.py` measures that).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tasks.analysis.frames import seconds

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "record_id", "run_id", "round", "created_at", "workload_key", "workload", "network", "target",
    "device", "device_id", "host", "sketch_id", "status", "purpose", "latency_s",
    "predicted_score", "model_id",
)  # fmt: skip

By = Literal["model", "kind", "workload", "sketch", "target", "device"]


@dataclass(frozen=True)
class Erring:
    """How well predictions ordered the candidates of one group of rounds.

    Attributes:
        group: the model, kind of workload, workload, sketch, target or device.
        rounds: with at least two valid candidates.
        candidates: valid ones with a prediction.
        failed: share of the predicted candidates that failed.
        order: correlation of the ranks by prediction and by speed inside rounds, -1 to 1; None if
            no round has different predictions.
        first_choice: speed of the candidate that a round's prediction put first, over its best.
        worst: the same of the round where the prediction cost most.
        record: the candidate that was put first there.
    """

    group: str
    rounds: int
    candidates: int
    failed: float
    order: float | None
    first_choice: float
    worst: float
    record: str


def errors(frame: pd.DataFrame, by: By = "workload") -> list[Erring]:
    """A row for each group, that with the worst first choices first.

    ``kind`` is the workload's operations, such as ``conv2d+add+relu``; ``model`` the family, such
    as ``draft`` or ``xgb``. Finals repeat candidates, so only the search counts.
    """
    rows = frame[(frame["purpose"] == "search") & frame["predicted_score"].notna()]
    if rows.empty:
        return []
    rows = rows.assign(group=_groups(rows, by))
    per_round = ["run_id", "round", "workload_key", "target", "machine"]
    rows = rows.assign(
        batch=rows.groupby(per_round, observed=True, sort=False).ngroup(),
        speed=np.where(rows["usable"], 1.0 / rows["latency_s"], np.nan),
    )
    failed = 1.0 - rows.groupby("group", observed=True)["usable"].mean()
    valid = rows[rows["usable"]]
    size = valid.groupby("batch")["speed"].transform("size")
    valid = valid[size >= 2]
    if valid.empty:
        return []
    order = _order(valid)
    first = _first_choices(valid)
    out = []
    for group, part in first.groupby("group", observed=True):
        worst = part.loc[part["kept"].idxmin()]
        out.append(
            Erring(
                str(group),
                len(part),
                int(part["candidates"].sum()),
                float(failed[group]),
                seconds(order.get(group, np.nan)),
                float(part["kept"].mean()),
                float(worst["kept"]),
                str(worst["record_id"]),
            )
        )
    return sorted(out, key=lambda one: (one.first_choice, one.group))


def _groups(rows: pd.DataFrame, by: By) -> pd.Series:
    if by == "model":
        names = rows["model_id"].astype(object)
        families = {name: str(name).partition("-")[0] for name in names.unique()}
        return names.map(families)
    if by in ("kind", "workload"):
        names = rows["workload"].astype(object)
        if by == "workload":
            return names
        return names.map({name: str(name).partition(" ")[0] for name in names.unique()})
    if by == "sketch":
        return "sketch " + rows["sketch_id"].astype(str)
    return rows[{"target": "target", "device": "machine"}[by]].astype(object)


def _order(valid: pd.DataFrame) -> pd.Series:
    """Correlation of ranks, each centred in its round, pooled over the rounds of a group."""
    batches = valid.groupby("batch")
    centred = {
        name: batches[name].rank() - batches[name].rank().groupby(valid["batch"]).transform("mean")
        for name in ("predicted_score", "speed")
    }
    predicted, true = centred["predicted_score"], centred["speed"]
    sums = (
        valid[["group"]]
        .assign(both=predicted * true, predicted=predicted**2, true=true**2)
        .groupby("group", observed=True)
        .sum()
    )
    scale = np.sqrt(sums["predicted"] * sums["true"])
    return sums["both"] / scale.where(scale > 0)


def _first_choices(valid: pd.DataFrame) -> pd.DataFrame:
    """A row for each round: the candidate that was put first, and what of the best it reached."""
    batches = valid.groupby("batch")["speed"]
    best = batches.max()
    chosen = (
        valid.assign(id=valid["record_id"].astype(str))
        .sort_values(["predicted_score", "id"], ascending=[False, True])
        .drop_duplicates("batch")
        .set_index("batch")
    )
    return chosen.assign(kept=chosen["speed"] / best, candidates=batches.size())
