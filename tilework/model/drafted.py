"""What the analytic model alone would choose: the schedule of a task that nobody has measured.

Untuned networks are compiled with it, and a search begins from it.
"""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

import numpy as np

from tilework.model.draft import draft_of
from tilework.space import SearchSpace, Sketch
from tilework.task import SearchTask

_SAMPLES = 1024
_CLIMBS = 4


class Choice(NamedTuple):
    """A schedule and where it comes from.

    Attributes:
        sketch_id, row: the schedule.
        source: ``"tuned"`` if it was measured for this target, ``"transferred"`` if with another
            number of threads of the same CPU, else ``"untuned"``.
        latency_s: its recorded latency; None unless tuned.
        predicted_s: what the draft model expects; None if tuned.
    """

    sketch_id: int
    row: tuple[int, ...]
    source: Literal["tuned", "transferred", "untuned"]
    latency_s: float | None
    predicted_s: float | None = None


def draft_schedule(task: SearchTask, *, direct: bool = False) -> Choice:
    """The best of a random sample of all sketches by predicted time, improved step by step.

    Args:
        direct: leave out sketches of rewritten DAGs (Winograd).
    """
    starts = []
    for sketch in SearchSpace.of(task).sketches:
        if direct and sketch.transforms:
            continue
        rows = sketch.sample(_generator(task, sketch), _SAMPLES)
        if len(rows):
            times = draft_of(sketch.target).seconds(sketch, rows)
            best = int(np.argmin(times))
            starts.append((float(times[best]), sketch.id, rows[best]))
    seconds, sketch_id, row = min(starts, key=lambda s: s[:2])
    sketch = SearchSpace.of(task).sketch(sketch_id)
    for _ in range(_CLIMBS):
        near = sketch.neighbours(row)
        if not len(near):
            break
        times = draft_of(sketch.target).seconds(sketch, near)
        best = int(np.argmin(times))
        if times[best] >= seconds:
            break
        seconds, row = float(times[best]), near[best]
    return Choice(sketch_id, tuple(int(d) for d in row), "untuned", None, seconds)


def _generator(task: SearchTask, sketch: Sketch) -> np.random.Generator:
    text = f"{task.workload_key} {task.target} {sketch.id}"
    return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:16]))
