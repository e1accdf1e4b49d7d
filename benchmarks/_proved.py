"""What searches had found when, timed again in turns: recorded latencies are no yardstick.

The lowest of a thousand latencies is a lucky one, by 5 to 30 % where a program waits for memory;
and searches that ran at other times met another machine. So of every search the programs that were
its best so far are timed once more, those of all searches of a layer in turns, in one process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from _live import Search

from tilework.measure import Measurer
from tilework.record import Record
from tilework.search.finals import as_candidates
from tilework.task import SearchTask

AT_ONCE = 24
"""Programs that are timed in turns with each other; the yardstick's are among all of them."""
YARDSTICK = 4


def improvements(search: Search) -> list[tuple[int, Record]]:
    """Trials that found a search's best so far, and what they found."""
    found: list[tuple[int, Record]] = []
    best = math.inf
    for number, record in enumerate(search.trials(), 1):
        if record.usable and record.latency_s is not None and record.latency_s < best:
            best = record.latency_s
            found.append((number, record))
    return found


def prove(
    task: SearchTask,
    yardstick: Iterable[Search],
    searches: Iterable[Search],
    measurer: Measurer,
    path: Path,
) -> None:
    """Time again what searches had found, and keep it.

    Args:
        task: the layer.
        yardstick: searches whose best is what all are measured by.
        searches: all of them.
        measurer: of the target.
        path: file of seconds by program, relative to the yardstick's best of the same turns.
    """
    records = [r for s in yardstick for r in s.trials() if r.usable and r.latency_s is not None]
    records.sort(key=lambda r: r.latency_s or math.inf)
    fixed = list({_program(r): r for r in reversed(records[:16])}.values())[::-1][:YARDSTICK]
    known = {_program(r) for r in fixed}
    others = {_program(r): r for s in searches for _, r in improvements(s)}
    rest = [r for name, r in others.items() if name not in known]
    step = AT_ONCE - len(fixed)
    told: dict[str, list[float]] = {}
    for start in range(0, max(len(rest), 1), step):
        group = [*fixed, *rest[start : start + step]]
        got = measurer.finals(task, as_candidates(group))
        seconds = [m.latency_s if m.latency_s is not None else math.inf for m in got]
        best = min(seconds[: len(fixed)])
        for record, each in zip(group, seconds, strict=True):
            told.setdefault(_program(record), []).append(each / best)
    mean = {name: sum(values) / len(values) for name, values in told.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(mean, indent=1))
    part.replace(path)


def proved_course(search: Search, told: Mapping[str, float]) -> list[tuple[int, float]]:
    """Trials after which a search had another best, and how much slower than the yardstick."""
    return [(n, told[_program(r)]) for n, r in improvements(search) if _program(r) in told]


def trials_within(course: Sequence[tuple[int, float]], near: float) -> int | None:
    """Trials after which the best so far took at most ``near`` times the yardstick's time."""
    return next((number for number, ratio in course if ratio <= near), None)


def _program(record: Record) -> str:
    return record.code_hash or f"{record.sketch_id} {record.decisions}"
