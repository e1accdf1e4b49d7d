"""What was best for other machines, and for workloads that are alike, as rows of a task's space.

A guest is a candidate: how fast it was where it comes from is no part of it.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.errors import TileworkError
from tilework.frozen import frozen
from tilework.model.draft import draft_of
from tilework.record import (
    Catalogue,
    History,
    Purpose,
    Record,
    WorkloadLog,
    by_device,
    contenders,
)
from tilework.space import SearchSpace, space_of
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask, rules_of
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json
from tilework.travel.likeness import Shape, distance, shape_of
from tilework.travel.mapped import Reach, alternatives
from tilework.travel.structure import gap

T = TypeVar("T")

ALIKE = 4.0
"""How far (`tilework.travel.likeness.distance`) a workload may be whose schedules are tried."""
_TARGETS = 6
"""Of so many targets, the nearest first, records are looked up."""
_ALIKE_WORKLOADS = 3
_ENOUGH = 2
"""Guests of a task's own workload beside which no alike ones are looked for."""
_ALTERNATIVES = 32
"""Rows near what a record asks for, of which the draft model takes one."""
_PARALLEL = 64
_STRAY = 0.05
"""What a row loses by the judge's word for each unit that it lies from what was asked for."""


Judge = Callable[[Sketch, Rows], NDArray[np.float64]]
"""Seconds of a sketch's rows, or numbers in proportion to them."""


@frozen
class Guest:
    """A schedule of a task that comes from elsewhere.

    Attributes:
        sketch_id, row: in the task's space, valid.
        record_id, device: of the record that it comes from.
        origin: the target that the record is of, as text.
        workload: name of the workload that it is of; empty if it is the task's own.
        predicted_s: what the draft model expects of it here.
        here: whether it was measured on the device that it is for, as another target's code.
    """

    sketch_id: int
    row: tuple[int, ...]
    record_id: str
    device: str
    origin: str
    workload: str
    predicted_s: float
    here: bool = False

    @property
    def text(self) -> str:
        """Where it comes from, for people."""
        return f"{self.workload} on {self.origin}" if self.workload else self.origin


@frozen(eq=False)
class _Source:
    """Records of one workload and target: ``task`` is what they are of."""

    task: SearchTask
    records: tuple[Record, ...]
    workload: str
    device: DeviceIdentity | None

    def here(self, record: Record) -> bool:
        """Whether a record was measured on the device that guests are for."""
        return self.device is not None and self.device.owns(record)


_DAGS: BoundedCache[str, SearchTask] = BoundedCache(256)
_SHAPES: BoundedCache[str, Shape] = BoundedCache(8192)
"""By workload key: a sound document says the same wherever it is read."""


def guests(
    task: SearchTask,
    history: History,
    *,
    device: DeviceIdentity | None = None,
    most: int = 8,
    each: int = 1,
    direct: bool = False,
    judge: Judge | None = None,
    familiar: bool = False,
) -> Iterator[Guest]:
    """The best schedules of other targets and of alike workloads, mapped into the task's space.

    One by one, each looked for when it is asked for.

    Those of the task's own workload come first, and of these what was measured on this very device
    as another target's code, then the nearest machine's; each target gives one in turn. The same
    task and records give the same guests, in any process.

    Args:
        task: what they are for; its own records of its own target are no guests.
        history: asked for what it has of other targets if it is a `Catalogue`, and of other
            workloads if it is a `WorkloadLog` too; else for the target's relatives only.
        device: that they are for, if it is here: what was measured on it comes before what was
            measured on others.
        most: so many at most, no two of them the same program.
        each: so many of one workload, target and device at most: where it is 1, what other targets
            hold is not read to its end.
        direct: leave out rewritten DAGs (Winograd).
        judge: says which of the rows near what a record asks for is taken; the draft if None.
        familiar: only those of the task's own workload that were measured on ``device`` with as
            many threads; else those of alike ones, too, where there are few of its own.
    """
    seen: set[tuple[int, int]] = set()
    space = SearchSpace.of(task)
    for stream in (
        _own_workload(task, history, device, each, familiar=familiar),
        iter(()) if familiar else _alike_workloads(task, history, device),
    ):
        if len(seen) >= min(_ENOUGH, most):
            return
        sources = (_from(task, space, source, direct, judge) for source in stream)
        for guest in _in_turn(sources):
            sketch = space.sketch(guest.sketch_id)
            name = guest.sketch_id, int(sketch.row_hash(np.array([guest.row], np.int32))[0])
            if name not in seen:
                seen.add(name)
                yield guest
                if len(seen) >= most:
                    return


def _in_turn(sources: Iterable[Iterator[Guest]]) -> Iterator[Guest]:
    """The first of each source, then the second of each, as long as one has any.

    A source is looked for when its first one is.
    """
    left: Iterable[Iterator[Guest]] | None = sources
    while left:
        going = []
        for one in left:
            guest = next(one, None)
            if guest is not None:
                going.append(one)
                yield guest
        left = going


# --- where to look ---------------------------------------------------------------------------


def far(one: Target, other: Target) -> float:
    """How unlike two machines of a kind are as far as schedules go; 0 for equal ones."""
    a, b = Reach.of(one), Reach.of(other)
    weights = {"lanes": 2.0, "registers": 1.0, "threads": 0.5, "l1_bytes": 0.25, "l2_bytes": 0.25}
    out = sum(
        weight * abs(math.log2(getattr(a, name) / getattr(b, name)))
        for name, weight in weights.items()
    )
    return out + 0.1 * (str(one) != str(other.with_cores(one.num_cores)))


def _targets(task: SearchTask, texts: Iterable[str]) -> list[Target]:
    """Other targets of the task's kind, the nearest first."""
    distances = []
    for text in sorted(set(texts)):
        if text != str(task.target):
            with contextlib.suppress(TileworkError):
                where = Target(text)
                if where.kind == task.target.kind:
                    distances.append((far(task.target, where), text, where))
    return [where for _, _, where in sorted(distances, key=lambda f: f[:2])][:_TARGETS]


def _own_workload(
    task: SearchTask,
    history: History,
    device: DeviceIdentity | None,
    each: int,
    *,
    familiar: bool,
) -> list[_Source]:
    """The task's workload on other targets: those measured on this device first, then the nearest.

    What is good here as another target's code is good here more often than what is good for the
    same instructions on another machine.
    """
    key = task.workload_key
    if familiar and device is None:
        return []
    if isinstance(history, Catalogue):
        entries = history.keys()
        where = _targets(task, (target for target, known in entries if known == key))
    else:
        where = list(task.target.relatives())
    if familiar:
        where = [target for target in where if target.num_cores == task.target.num_cores]
    sources = []
    for target in where:
        records = _decided(_bests(history, key, str(target), each), device)
        source = _Source(replace(task, target=target), records, "", device)
        if familiar:
            source = replace(source, records=tuple(filter(source.here, records)))
        if source.records:
            sources.append(source)
    return sorted(sources, key=lambda source: not source.here(source.records[0]))


def _alike_workloads(
    task: SearchTask, history: History, device: DeviceIdentity | None
) -> Iterator[_Source]:
    """Workloads by how near they are, each of its nearest targets."""
    if not isinstance(history, Catalogue) or not isinstance(history, WorkloadLog):
        return
    try:
        own = shape_of(dag_to_json(task.compute_dag))
    except DagFormatError:
        return
    if own is None:
        return
    known = defaultdict[str, list[str]](list)
    entries, own_key, kind = history.keys(), task.workload_key, task.target.kind
    for text, key in entries:
        if key != own_key and text.split(maxsplit=1)[0] == kind:
            known[key].append(text)
    near = []
    for key in known:
        shape = _known(_SHAPES, key, partial(_shape, history, key))
        if shape is not None and (gap_ := distance(own, shape)) <= ALIKE:
            near.append((gap_, key))
    taken = 0
    for _, key in sorted(near):
        other = _known(_DAGS, key, partial(_task_of, history, key))
        if other is None:
            continue
        texts = known[key]
        here = [task.target] if str(task.target) in texts else []
        for target in (*here, *_targets(task, texts)):
            text = str(target)
            records = _decided(history.hints(key, text, None), device)
            if records:
                there = replace(other, target=target)
                name = records[0].workload or "another workload"
                yield _Source(there, records, name, device)
                taken += 1
                break
        if taken >= _ALIKE_WORKLOADS:
            return


def _bests(history: History, key: str, target: str, each: int) -> list[Record]:
    """The best records of each device: one, or up to ``each`` programs of each."""
    if each == 1:
        return history.hints(key, target, None)
    out = []
    for rows in by_device(contenders(history.of(key, target))):
        ranked = sorted(rows, key=lambda r: (r.latency_s or math.inf, r.record_id))
        programs: dict[tuple[int, tuple[int, ...]], Record] = {}
        for record in ranked:
            programs.setdefault((record.sketch_id, record.decisions), record)
        out += list(programs.values())[:each]
    return out


def _decided(records: Sequence[Record], device: DeviceIdentity | None) -> tuple[Record, ...]:
    """This device's records before others, then where finals were held; else as given: lately."""

    def order(record: Record) -> tuple[bool, bool]:
        here = device is not None and device.owns(record)
        return not here, record.purpose != Purpose.final

    return tuple(sorted(records, key=order))


def _known(cache: BoundedCache[str, T], key: str, find: Callable[[], T | None]) -> T | None:
    """What is cached, or else what is found, which is kept unless it is nothing."""
    value = cache.get(key)
    if value is None:
        value = find()
        if value is not None:
            cache.put(key, value)
    return value


def _shape(history: WorkloadLog, key: str) -> Shape | None:
    return shape_of(history.workload(key) or "")


def _task_of(history: WorkloadLog, key: str) -> SearchTask | None:
    """A workload of the history as a task of no particular target, if its document is sound."""
    try:
        dag, rules = dag_from_json(history.workload(key) or ""), rules_of(key)
        task = SearchTask(dag, Target("llvm -num-cores=1"), rules=rules)
    except TileworkError:
        return None
    return task if task.workload_key == key else None


# --- into the task's space -------------------------------------------------------------------


def _from(
    task: SearchTask, space: SearchSpace, source: _Source, direct: bool, judge: Judge | None
) -> Iterator[Guest]:
    """A guest of each record whose row is a schedule, in order."""
    try:
        there = SearchSpace.of(source.task)
    except TileworkError:
        return
    version, own = space_of(task.target).version, draft_of(task.target).seconds
    for record in source.records:
        if record.rules_version != version or not 0 <= record.sketch_id < len(there.sketches):
            continue
        sketch = there.sketches[record.sketch_id]
        row = np.array([record.decisions], np.int32)
        if row.shape[1] != sketch.num_decisions or not sketch.valid(row)[0]:
            continue
        target = _counterpart(sketch, space.sketches, direct)
        if target is None:
            continue
        fitted = _fitted(sketch, target, row, judge or own)
        if fitted is not None:
            best, word = fitted
            seconds = word if judge is None else float(own(target, best[None])[0])
            decisions = tuple(int(d) for d in best)
            yield Guest(
                target.id,
                decisions,
                record.record_id,
                record.device,
                str(source.task.target),
                source.workload,
                seconds,
                source.here(record),
            )


def _counterpart(source: Sketch, sketches: Sequence[Sketch], direct: bool) -> Sketch | None:
    """The sketch that is built most like another target's or workload's; None if none is."""
    allowed = [s for s in sketches if not (direct and s.transforms)]
    gaps = [gap(source, sketch) for sketch in allowed]
    least = min(gaps, default=math.inf)
    return None if least == math.inf else allowed[gaps.index(least)]


def _fitted(source: Sketch, target: Sketch, row: Rows, judge: Judge) -> tuple[Rows, float] | None:
    """What of the rows near a source's row the judge takes, and its word of it."""
    near = alternatives(source, target, row, _ALTERNATIVES)
    if not len(near.rows):
        return None
    rows, cost, words = near.rows, near.cost, None
    if source.target.num_cores != target.target.num_cores:
        for decision in target.decisions:
            if decision.kind == "parallel":
                options = np.repeat(rows, len(decision.choices), axis=0)
                options[:, decision.columns] = np.tile(decision.choices, (len(rows), 1))
                fine = target.valid(options)
                cost = np.concatenate([cost, np.repeat(cost, len(decision.choices))[fine]])
                rows = np.concatenate([rows, options[fine]])
                words = judge(target, rows)
                few = np.argsort(_worth(words, cost), kind="stable")[:_PARALLEL]
                rows, cost, words = rows[few], cost[few], words[few]
    words = judge(target, rows) if words is None else words
    best = int(np.argmin(_worth(words, cost)))
    return rows[best], float(words[best])


def _worth(seconds: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """What counts among rows near what was asked for: the judge's word, and how near they are."""
    return seconds * (1 + _STRAY * cost)
