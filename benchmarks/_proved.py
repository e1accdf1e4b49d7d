"""What searches had found when, timed again in turns: recorded latencies are no yardstick.

The lowest of a thousand latencies is a lucky one, by 5 to 30 % where a program waits for memory;
and searches that ran at other times met another machine. So of every search the programs that were
its best so far are timed once more, those of all searches of a layer in turns, in one process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from _live import Search

from tilework.measure import Measurer
from tilework.record import Record
from tilework.search.finals import as_candidates

AT_ONCE = 24
"""Programs that are timed in turns with each other."""
COMMON = 4
"""Programs that are among all of these: what is told of the others is told relative to them."""


def improvements(search: Search) -> list[tuple[int, Record]]:
    """Trials that found a search's best so far, and what they found."""
    found: list[tuple[int, Record]] = []
    best = math.inf
    for number, record in enumerate(search.trials(), 1):
        if record.usable and record.latency_s is not None and record.latency_s < best:
            best = record.latency_s
            found.append((number, record))
    return found


def prove(searches: Sequence[Search], measurer: Measurer, path: Path) -> None:
    """Time again what searches of one space had found, and keep the seconds by program.

    Args:
        searches: of one task.
        measurer: of its target.
        path: where to.
    """
    task = searches[0].task
    records = [r for s in searches for r in s.trials() if r.usable and r.latency_s is not None]
    records.sort(key=lambda r: r.latency_s or math.inf)
    common = list({_program(r): r for r in reversed(records[:16])}.values())[::-1][:COMMON]
    known = {_program(r) for r in common}
    others = {_program(r): r for s in searches for _, r in improvements(s)}
    rest = [r for name, r in others.items() if name not in known]
    step = AT_ONCE - len(common)
    ratios: dict[str, list[float]] = {}
    scales = []
    for start in range(0, max(len(rest), 1), step):
        group = [*common, *rest[start : start + step]]
        got = measurer.finals(task, as_candidates(group))
        seconds = [m.latency_s if m.latency_s is not None else math.inf for m in got]
        scales.append(min(seconds[: len(common)]))
        for record, each in zip(group, seconds, strict=True):
            ratios.setdefault(_program(record), []).append(each / scales[-1])
    scale = sum(scales) / len(scales)
    told = {name: scale * sum(values) / len(values) for name, values in ratios.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(told, indent=1))
    part.replace(path)


def proved_course(search: Search, told: Mapping[str, float]) -> list[tuple[int, float]]:
    """Trials after which a search had another best, and its seconds."""
    return [(n, told[_program(r)]) for n, r in improvements(search) if _program(r) in told]


def trials_within(course: Sequence[tuple[int, float]], seconds: float) -> int | None:
    """Trials after which the best so far took at most so many seconds; None: never."""
    return next((number for number, found in course if found <= seconds), None)


def _program(record: Record) -> str:
    return record.code_hash or f"{record.sketch_id} {record.decisions}"
