"""Why candidates failed, by how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("record_id", "status", "error", "latency_s")

_LONGEST = 200


@dataclass(frozen=True)
class Cause:
    """A kind of failure: how often it occurred, and a record of it."""

    count: int
    status: str
    message: str
    record: str


def causes(frame: pd.DataFrame, most: int = 5) -> tuple[Cause, ...]:
    """The commonest failures; messages that differ in numbers only are one."""
    rows = frame.loc[~frame["usable"], ["status", "error", "record_id"]].astype(str)
    if rows.empty:
        return ()
    lines = rows["error"].str.strip().str.partition("\n")[0].str.slice(0, _LONGEST)
    plain = lines.str.replace(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?", "#", regex=True)
    rows = rows.assign(line=lines, plain=plain)
    counted = rows.groupby(["status", "plain"], sort=False).agg(
        count=("line", "size"), line=("line", "first"), record=("record_id", "first")
    )
    top = counted.sort_values("count", ascending=False, kind="stable").head(most)
    return tuple(
        Cause(int(row.count), status, row.line, row.record)
        for (status, _), row in zip(top.index, top.itertuples(index=False), strict=True)
    )
