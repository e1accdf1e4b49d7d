"""What was measured of the models, as a table in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from model_set.child import OURS, REFERENCE

Row = dict[str, Any]


def sentence(row: Row) -> str:
    """What became of a model, in one line."""
    said = row["engines"].get(OURS, {})
    for name, what in (("error", "does not open"), ("wrong", "**WRONG**")):
        if name in said:
            return f"{what}: {said[name]}"
    peer = row["engines"].get(REFERENCE, {})
    if "max_error" not in said:
        return f"opens; {REFERENCE}: {peer.get('error', 'not asked')}"
    return f"opens, differs by {said['max_error']:.0e}"


def markdown(rows: Sequence[Row], engines: Sequence[str]) -> str:
    """The table, and the geometric means of the ratios to the better engine."""
    heads = ["model", "threads", "opens and agrees", "run by Tilework",
             f"first answer, s: {' / '.join(engines)}", f"ms a call: {' / '.join(engines)}",
             "ratio to the better"]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        each = [row["engines"].get(name, {}) for name in engines]
        first = [row["first"].get(name, {}) for name in engines]
        cells = [
            row["model"], str(row["threads"]), sentence(row).replace("|", "\\|"), share(row),
            _numbers(f.get("seconds") for f in first), _numbers(e.get("ms") for e in each),
            "" if row["ratio"] is None else f"**{row['ratio']:.2f}**",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for threads in sorted({row["threads"] for row in rows}):
        mine = [row for row in rows if row["threads"] == threads]
        opened = sum("max_error" in row["engines"].get(OURS, {}) for row in mine)
        told = f"{threads} thread{'s' * (threads > 1)}: {opened} of {len(mine)} open and agree"
        ratios = [row["ratio"] for row in mine if row["ratio"]]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            told += f"; geometric mean of {len(ratios)} ratios to the better engine {mean:.2f}"
        lines.append(f"- {told}")
    return "\n".join(lines) + "\n"


def share(row: Row) -> str:
    """Which share of the operations Tilework runs itself, and what it leaves."""
    said = row["engines"].get(OURS, {})
    if "share" not in said:
        return ""
    left = f"; left: {said['left']}" if said["left"] else ""
    return f"{said['share']:.0%}{left}".replace("%", " %")


def ratio(engines: dict[str, Any]) -> float | None:
    """Our time over that of the better other engine."""
    found = [said["ratio"] for said in engines.values() if "ratio" in said]
    return max(found, default=None)


def _numbers(values: Any) -> str:
    return " / ".join("-" if v is None else f"{v:.3g}" for v in values)
