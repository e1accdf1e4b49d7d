"""What the analytic model alone would choose: the schedule of a task that nobody has measured.

Untuned networks are compiled with it, and a search begins from it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.errors import ScheduleError
from tilework.index.documents import table_document
from tilework.model.base import Rows
from tilework.model.choice import Choice as Choice
from tilework.model.climbing import Around, Seen, climbed
from tilework.model.climbing import Seconds as Compared
from tilework.model.draft import Draft, draft_of
from tilework.model.effort import CLOSE, LIGHT, Effort
from tilework.space import SearchSpace, Sketch
from tilework.task import SearchTask

# What is for families is imported by the first of them.

_FEW_STEPS = 2
"""After how many steps each row has to pay. An answer of the draft takes as long for one row as
for a thousand: many rows come as far by two steps as few by four."""
_FEW = 16
"""Rows that a learned model is asked about: more gave nothing (`docs/knowledge.md`)."""
_LEAST_PROMISE, _MOST_PROMISE = 1.05, 1.2
"""How many times its bound a sketch's best row is expected to take: as many as the best of those
before it, within these. Of 4,840 tasks 3 % get another choice than by bounds alone, which is
predicted to take 1.0002 times as long in the mean of all, 1.09 times at the most."""
ALIKE = 1.0
"""Of rows that take at most so many times the seconds of the best, that with the least code is
taken, which is made sooner. Above 1 a third to three quarters of the code go, but also rows are
taken that the draft does not know to be slow, by up to 3 times. (Of families: `Effort.alike`.)"""


class Seconds(Compared, Protocol):
    """The part of a draft by which rows are found."""

    def least(self, sketch: Any, closely: bool = False) -> float:
        """Seconds that no valid row takes less than, by its work; or more ``closely``."""

    def lengths(self, sketch: Any, rows: Any) -> NDArray[np.float64]:
        """How much code P rows are, relative to each other."""


class Drawn(Around, Protocol):
    """The part of a sketch from which its best row by the draft is found."""

    @property
    def id(self) -> int:
        """Position of the sketch in its space."""

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` valid random rows."""

    def canonical(self, rows: Rows) -> Rows:
        """The rows without what has no effect."""


def draft_schedule(task: SearchTask, *, direct: bool = False) -> Choice:
    """The schedule of a task that nobody has measured; see `best_drafted`.

    Args:
        task: the task.
        direct: leave out sketches of rewritten DAGs (Winograd).

    Raises:
        ScheduleError: no sketch has a valid row.
    """
    choice = drafted(task, direct=direct)
    if choice is None:
        raise ScheduleError(
            f"{task.desc or 'a task'} has no valid schedule for {task.target}: none of the rows "
            f"drawn from its {len(SearchSpace.of(task).sketches)} sketches is within its limits"
        )
    return choice


class Drafted(NamedTuple):
    """What the draft finds for a workload.

    Attributes:
        choice: the schedule that it likes best.
        near: what it likes best of each look at a sketch, by the sketch's id.
    """

    choice: Choice
    near: Sequence[tuple[int, Seen]] = ()

    @property
    def few(self) -> list[tuple[int, Rows]]:
        """Rows of all sketches that it likes, with their sketch, the best first, each once."""
        best: dict[tuple[int, bytes], tuple[float, Rows]] = {}
        for sketch_id, (rows, seconds) in self.near:
            for row, value in zip(rows, seconds, strict=True):
                best[sketch_id, row.tobytes()] = float(value), row
        ordered = sorted(best.items(), key=lambda one: (one[1][0], one[0]))
        return [(sketch_id, row.copy()) for (sketch_id, _), (_, row) in ordered[:_FEW]]


_FOUND: BoundedCache[tuple[str, str, bool, str, Effort], Drafted | None] = BoundedCache(1024)
"""A run asks twice: when its search begins, and when it compiles what untuned users get. Workloads
of one key differ where their symbols have other typical points."""


def drafted(task: SearchTask, *, direct: bool = False, effort: Effort = CLOSE) -> Choice | None:
    """As `draft_schedule`, but None where no sketch has a valid row; found once in a process.

    Args:
        task, direct: as there.
        effort: how closely to look, where a run decides extents of the task.
    """
    drafts = drafted_few(task, direct=direct, effort=effort)
    return None if drafts is None else drafts.choice


def drafted_few(
    task: SearchTask, *, direct: bool = False, effort: Effort = CLOSE
) -> Drafted | None:
    """As `drafted`, with the rows that it likes almost as much."""

    def find() -> Drafted | None:
        draft = draft_of(task.target)
        sketches = [s for s in SearchSpace.of(task).sketches if not (direct and s.transforms)]
        if task.compute_dag.symbols:
            return _of_family(task, sketches, draft, effort)
        return best_drafted(task.workload_key, str(task.target), sketches, draft)

    typical = str(table_document(task.compute_dag.symbols))
    named = task.workload_key, str(task.target)
    return _FOUND.get_or_make((*named, direct, typical, effort), find)


def _of_family(
    task: SearchTask, sketches: Sequence[Sketch], draft: Draft, effort: Effort
) -> Drafted | None:
    """As `best_drafted`, of a task whose extents a run decides: one row for all points, or two.

    Rows are found by what they take at the first point and at the last one, or at the last one
    alone where nothing is read several times: an answer of the draft takes as long for one row as
    for hundreds. The best of these are compared at all points. Nobody asks for rows that it likes
    almost as much.
    """
    from tilework.model.asked import BESIDE_S, LONGEST, SLACK, Asked
    from tilework.model.family import family_at, looked_at
    from tilework.model.second import with_alone, with_second
    from tilework.model.short import good_when_short

    key, target = task.workload_key, str(task.target)
    light = not any(block.levels.reuse for sketch in sketches for block in sketch.blocks)
    asked = Asked(draft, longest=LONGEST if light else math.inf)
    if light and effort is CLOSE:
        effort = LIGHT
    points = looked_at(task.compute_dag.symbols, 3 if effort is CLOSE else 2)
    family = family_at(sketches, points)
    ends = [sketch.at_end if light else sketch.at_ends for sketch in family]
    looked_for = _looked_for(key, target, ends, asked, effort)
    if not looked_for.ends:
        return None
    asked = asked.everywhere(family)
    if not asked.said:
        asked = Asked(draft, longest=asked.longest)  # nothing good at both ends is valid between
        if not _looked_for(key, target, family, asked).ends:
            return None
    best = asked.best(family, slice(None), effort.alike)
    if effort is CLOSE:
        best = good_when_short(best, family, task.compute_dag.symbols, asked)
    row = tuple(int(n) for n in best.sketch.canonical(best.row[None])[0])
    choice = Choice(best.sketch.id, row, "untuned", None, math.exp(best.log) - BESIDE_S)
    slack = max(effort.alike, SLACK)
    choice = with_alone(choice, family, task.compute_dag, points, asked, slack)
    if effort.second:
        choice = with_second(choice, family, task.compute_dag, points, asked)
    return Drafted(choice)


def forget_choices() -> None:
    """Find every choice anew: to be called where the numbers of a machine have changed."""
    _FOUND.clear()


def best_drafted(
    workload_key: str, target: str, sketches: Sequence[Drawn], draft: Seconds
) -> Drafted | None:
    """The best of a random sample of all sketches by predicted time, improved step by step.

    Sketches whose bounds (`Draft.least`) promise nothing better than what was found, or whose
    closer ones exclude it, are not drawn from. The few best rows are improved, each on its own:
    one alone may have no better neighbour. Of the rows of its sketch that are as fast as the best
    (`ALIKE`), the one with the least code is taken. The same workload and target give the
    same choice, in any process.

    Args:
        workload_key, target: what the random draws are named after.
        sketches: where to look.
        draft: predicts seconds of their rows.

    Returns:
        None if no row that was drawn is valid.
    """
    seen, ends = _looked_for(workload_key, target, sketches, draft)
    if not ends:
        return None
    best = min(ends, key=lambda end: end.seconds)
    sketch = sketches[best.position]
    seconds, row = _shortest(sketch, (best.seconds, best.row), draft, seen[best.position])
    row = sketch.canonical(row.reshape(1, -1))[0]
    choice = Choice(sketch.id, tuple(int(d) for d in row), "untuned", None, seconds)
    return Drafted(choice, _near({sketches[at].id: looks for at, looks in seen.items()}))


class _End(NamedTuple):
    """A row without a better neighbour, and the position of its sketch."""

    seconds: float
    position: int
    row: Rows


class _LookedFor(NamedTuple):
    """What was drawn and improved.

    Attributes:
        seen: by position of a sketch, what the draft said of its rows.
        ends: where the improvement of the few best rows came to, in the order of these.
    """

    seen: Mapping[int, Sequence[Seen]]
    ends: Sequence[_End]


def _looked_for(
    workload_key: str,
    target: str,
    sketches: Sequence[Drawn],
    draft: Seconds,
    effort: Effort = CLOSE,
) -> _LookedFor:
    """The rows among which `best_drafted` chooses; arguments as there.

    Args:
        workload_key, target, sketches, draft: as there.
        effort: how many rows are drawn of a sketch, and how many are improved.
    """
    most = effort.starts
    starts: list[tuple[float, int, Rows]] = []
    seen: dict[int, list[Seen]] = {}
    least = [draft.least(sketch) for sketch in sketches]
    promise = _MOST_PROMISE
    for position in sorted(range(len(sketches)), key=least.__getitem__):
        if starts and promise * least[position] > starts[0][0]:
            break
        sketch = sketches[position]
        if starts and draft.least(sketch, closely=True) > starts[0][0]:
            continue
        rows = sketch.sample(_generator(workload_key, target, sketch.id), effort.samples)
        if len(rows):
            times = draft.seconds(sketch, rows)
            best = _least(times, most)
            starts += [(float(times[i]), position, rows[i]) for i in best]
            starts = sorted(starts, key=lambda s: s[:2])[:most]
            seen[position] = [Seen(rows, times)]
            if times[best[0]] < promise * least[position]:
                promise = max(float(times[best[0]]) / least[position], _LEAST_PROMISE)
    ends: dict[int, _End] = {}
    for position in {at for _, at, _ in starts}:
        mine = [i for i, (_, at, _) in enumerate(starts) if at == position]
        some = [(starts[i][0], starts[i][2]) for i in mine]
        tops = climbed(sketches[position], some, draft, seen[position], _FEW_STEPS)
        each = (_End(seconds, position, row) for seconds, row in tops)
        ends.update(zip(mine, each, strict=True))
    return _LookedFor(seen, [ends[i] for i in sorted(ends)])


def _near(seen: Mapping[int, Sequence[Seen]]) -> list[tuple[int, Seen]]:
    """Of each look at a sketch the fastest rows."""
    each = [(name, look, _least(look.seconds, _FEW)) for name, own in seen.items() for look in own]
    return [(name, Seen(look.rows[some], look.seconds[some])) for name, look, some in each]


def _least(numbers: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Where the least of some numbers are, ascending; of equal ones the first."""
    some = np.arange(len(numbers))
    if len(numbers) > 2 * count:
        some = (numbers <= np.partition(numbers, count - 1)[count - 1]).nonzero()[0]
    return np.asarray(some[numbers[some].argsort(kind="stable")[:count]])


def _shortest(
    sketch: Drawn, best: tuple[float, Rows], draft: Seconds, seen: Sequence[Seen]
) -> tuple[float, Rows]:
    """Of all rows about as fast as the best one, that with the least code; else the fastest."""
    near = [s.seconds <= ALIKE * best[0] for s in seen]
    differ = (s.rows[n] != best[1] for s, n in zip(seen, near, strict=True))
    if not any(other.any() for other in differ):
        return best
    rows = np.concatenate([best[1][None], *(s.rows[n] for s, n in zip(seen, near, strict=True))])
    each = (s.seconds[n] for s, n in zip(seen, near, strict=True))
    seconds = np.concatenate([[best[0]], *each])
    taken = int(np.lexsort((seconds, draft.lengths(sketch, rows)))[0])
    return float(seconds[taken]), rows[taken]


def _generator(workload_key: str, target: str, sketch_id: int) -> np.random.Generator:
    text = f"{workload_key} {target} {sketch_id}"
    seed = np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], np.uint8)
    return np.random.default_rng(seed.astype(np.uint32))
