"""What got slower since a moment: what counts as the best, and programs that ran again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasks.analysis.frames import (
    GROUP,
    NEEDED_BY_BEST,
    best_rows,
    group_numbers,
    program_numbers,
    seconds,
)

if TYPE_CHECKING:
    import pandas as pd

    from tasks.analysis.moments import Moment

COLUMNS = (
    *NEEDED_BY_BEST, "network", "engine_version", "sketch_id", "rules_version",
    "decisions", "code_hash", "calibration_s",
)  # fmt: skip


@dataclass(frozen=True)
class Slower:
    """A workload on one device that is slower than it was.

    Attributes:
        best_before_s, best_s: what counted as the best then, and counts now. Only finals that say
            so can make it slower.
        record_before, record: the records of these.
        programs: how many programs were measured before and since.
        again: how much longer they take, the median of all; 0.1 is 10 %. None without any.
        machine: how much longer the calibration loop takes beside them; likewise.
        cause: which explanation the numbers support.
    """

    workload: str
    network: str
    target: str
    device: str
    best_before_s: float
    best_s: float
    record_before: str
    record: str
    programs: int
    again: float | None
    machine: float | None
    cause: str

    @property
    def best(self) -> float:
        """How much slower the best is; 0.1 is 10 %."""
        return self.best_s / self.best_before_s - 1.0

    @property
    def worst(self) -> float:
        """The larger of `best` and `again`."""
        return max(self.best, self.again if self.again is not None else self.best)


def slower(frame: pd.DataFrame, since: Moment, limit: float = 0.05) -> list[Slower]:
    """Workloads whose best, or whose programs that ran on both sides, got slower; worst first.

    Args:
        frame: records, with `COLUMNS`.
        since: the moment that divides them.
        limit: what is less slower is noise.
    """
    early = frame[frame["created_at"] < since.at]
    then, now = (_by_group(best_rows(part)) for part in (early, frame))
    both = then.merge(now, left_index=True, right_index=True, suffixes=("_then", ""))
    again = _again(frame, since)
    out = []
    for group, row in zip(both.index, both.itertuples(index=False), strict=True):
        ran = again.get(group)
        program = Slower(
            workload=str(row.workload),
            network=str(row.network),
            target=str(group[1]),
            device=str(group[2]),
            best_before_s=float(row.latency_s_then),
            best_s=float(row.latency_s),
            record_before=str(row.record_id_then),
            record=str(row.record_id),
            programs=0 if ran is None else ran.programs,
            again=None if ran is None else ran.ratio - 1.0,
            machine=None if ran is None or ran.machine is None else ran.machine - 1.0,
            cause="",
        )
        if program.worst > limit:
            out.append(_explained(program, ran, limit, str(row.purpose_then) == "final"))
    return sorted(out, key=lambda one: -one.worst)


def measured_on_both_sides(frame: pd.DataFrame, since: Moment) -> int:
    """How many workloads have a valid measurement before the moment and one since."""
    rows = frame[frame["usable"]]
    group = group_numbers(rows)
    late = (rows["created_at"] >= since.at).to_numpy()
    return len(np.intersect1d(group[late], group[~late]))


def _by_group(best: pd.DataFrame) -> pd.DataFrame:
    """Few rows, with plain texts: categories of two tables do not join."""
    return best.astype(dict.fromkeys(GROUP, object)).set_index(GROUP)


@dataclass(frozen=True)
class _Again:
    """Programs of one workload that ran before and since; ratios are since / before."""

    programs: int
    ratio: float
    machine: float | None
    same_code: bool
    versions: tuple[str, str]


def _again(frame: pd.DataFrame, since: Moment) -> dict[tuple[str, str, str], _Again]:
    """Medians over the programs of each workload that ran on both sides."""
    rows = frame[frame["usable"]]
    late = (rows["created_at"] >= since.at).to_numpy()
    number = program_numbers(rows)
    both = np.intersect1d(number[late], number[~late])
    kept = np.isin(number, both)
    if not kept.any():
        return {}
    rows = rows[kept].assign(number=number[kept], late=late[kept])
    per = rows.groupby(["number", "late"], sort=False).agg(
        latency=("latency_s", "median"),
        calibration=("calibration_s", "median"),
        code=("code_hash", "last"),
        version=("engine_version", "last"),
    )
    before, after = (per.xs(side, level="late").sort_index() for side in (False, True))
    groups = rows.drop_duplicates("number").set_index("number")[GROUP]
    pairs = groups.assign(
        ratio=after["latency"] / before["latency"],
        calibrated=after["calibration"] / before["calibration"],
        same=after["code"].astype(str) == before["code"].astype(str),
        old=before["version"].astype(str),
        new=after["version"].astype(str),
    )
    out = {}
    for (key, target, machine), part in pairs.groupby(GROUP, observed=True, sort=False):
        out[str(key), str(target), str(machine)] = _Again(
            len(part),
            float(part["ratio"].median()),
            seconds(part["calibrated"].median()),
            bool(part["same"].all()),
            (str(part["old"].iloc[0]), str(part["new"].iloc[-1])),
        )
    return out


def _explained(program: Slower, ran: _Again | None, limit: float, was_final: bool) -> Slower:
    from dataclasses import replace

    if ran is None or program.again is None or program.again <= limit:
        cause = (
            "later finals found it slower than earlier ones did"
            if was_final
            else "finals found it slower than the single measurement before"
        )
    elif program.machine is not None and program.machine > limit:
        cause = "the machine: its calibration loop is slower, too"
    elif not ran.same_code:
        old, new = ran.versions
        versions = f": version {old}, then {new}" if old != new else ""
        cause = f"the same schedules became other code{versions}"
    else:
        cause = "the same code is slower and the calibration is not: memory, caches, neighbours"
    return replace(program, cause=cause)
