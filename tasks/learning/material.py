"""What stores teach of one kind of machine: lessons, and which programs they are made of."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.patience import Tell, patiently
from tasks.stores import open_store
from tilework.errors import StoreError
from tilework.model import Observation
from tilework.search.corpus import Lesson, lessons
from tilework.travel.likeness import shape_of

if TYPE_CHECKING:
    from storage import RecordStore

MOST = 40_000
"""Records that a model learns from at most: which ones is decided before features are computed."""


@dataclass(frozen=True, eq=False)
class Taught:
    """A lesson with all that training and judging ask of it.

    Attributes:
        lesson: rows of one workload, target and device.
        observations: its rows sketch by sketch; what the draft says is relative to the lesson's
            best, so that the sketches of one workload compare.
        programs: for each observation 64 bits that name each of its programs, with workload,
            target and device.
        group: workloads that are alike but for the types of their elements and what is done
            beside their heaviest stage share it: they are held out together.
    """

    lesson: Lesson
    observations: tuple[Observation, ...]
    programs: tuple[NDArray[np.uint64], ...]
    group: str

    @property
    def target(self) -> str:
        """Canonical text."""
        return str(self.lesson.target)

    def __len__(self) -> int:
        return sum(len(some) for some in self.programs)

    def only(self, wanted: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> list[Observation]:
        """The observations of programs for which ``wanted`` says so; empty ones are left out."""
        kept = []
        for observation, programs in zip(self.observations, self.programs, strict=True):
            keep = wanted(programs)
            if keep.all():
                kept.append(observation)
            elif keep.any():
                kept.append(_part(observation, np.flatnonzero(keep)))
        return kept


@dataclass(frozen=True, eq=False)
class Material:
    """What stores teach of one kind of machine.

    Attributes:
        kind: of machine.
        stores: where it is from, as people know them.
        taught: in a fixed order.
        held: records of each target that the stores hold, whatever they are good for.
    """

    kind: str
    stores: tuple[str, ...]
    taught: tuple[Taught, ...]
    held: Mapping[str, int]

    def __len__(self) -> int:
        return sum(len(one) for one in self.taught)

    @property
    def targets(self) -> list[str]:
        """The targets of all lessons, sorted."""
        return sorted({one.target for one in self.taught})

    @property
    def programs(self) -> NDArray[np.uint64]:
        """Names of all programs, sorted, each once."""
        parts = [some for one in self.taught for some in one.programs]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of programs and latencies: equal ones teach the same."""
        digest = hashlib.sha256()
        for one in self.taught:
            for observation, programs in zip(one.observations, one.programs, strict=True):
                digest.update(programs.tobytes())
                digest.update(np.ascontiguousarray(observation.latency_s).tobytes())
        return digest.hexdigest()[:16]


def gather(stores: Sequence[RecordStore], kind: str, most: int = MOST) -> Material:
    """All that stores teach of a kind of machine; a program that several measured counts once.

    Raises:
        StoreBusy: a store cannot be read now.
    """
    held: Counter[str] = Counter()
    taught: list[Taught] = []
    seen: set[int] = set()
    for store in stores:
        counts = {t: n for t, n in rows_of(store).items() if kind_of(t) == kind}
        held.update(counts)
        for lesson in lessons(store, sorted(counts), most=most // len(stores)):
            one = _first_of_each(_taught(lesson), seen)
            if len(one):
                taught.append(one)
    taught.sort(key=lambda one: (one.target, one.lesson.workload_key, one.lesson.device))
    return Material(kind, tuple(store.path for store in stores), tuple(taught), dict(held))


def opened(stores: Sequence[str], tell: Tell) -> tuple[list[RecordStore], dict[str, int]]:
    """Stores to learn from, and how many records of each kind of machine they hold together.

    Raises:
        StoreError: a store is missing or cannot be read, or none has any record.
    """
    if not stores:
        raise StoreError("name a record store to learn from")
    open_stores = [patiently(partial(open_store, path, must_exist=True), tell) for path in stores]
    held: Counter[str] = Counter()
    for store in open_stores:
        for target, count in patiently(partial(rows_of, store), tell).items():
            held[kind_of(target)] += count
    if not held:
        raise StoreError(f"there are no records in {', '.join(map(repr, stores))}: tune something")
    return open_stores, dict(sorted(held.items()))


def rows_of(store: RecordStore) -> dict[str, int]:
    """How many records of each target a store holds: one column is read."""
    rows: Counter[str] = Counter()
    for table in store.scan(["target"]):
        counts = table.column("target").value_counts()
        for one in counts.to_pylist():
            rows[one["values"]] += one["counts"]
    return dict(rows)


def kind_of(target: str) -> str:
    """The kind of machine of a target's text."""
    return target.partition(" ")[0]


def _taught(lesson: Lesson) -> Taught:
    best = min((float(o.batch.draft_s.min()) for o in lesson.observations), default=1.0)
    observations = tuple(
        replace(o, batch=o.batch.referred(best)) for o in lesson.observations if len(o.batch)
    )
    where = f"{lesson.target}\n{lesson.device}\n{lesson.workload_key}"
    programs = tuple(_names(where, o) for o in observations)
    return Taught(lesson, observations, programs, _group(lesson.document))


def _names(where: str, observation: Observation) -> NDArray[np.uint64]:
    batch = observation.batch
    seed = hashlib.sha256(f"{where}\n{batch.sketch.id}".encode()).digest()[:8]
    salt = np.frombuffer(seed, np.uint64)[0]
    rows = np.ascontiguousarray(batch.rows, dtype=np.int64).astype(np.uint64)
    value = np.full(len(rows), salt, np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.T:
            value = (value ^ column) * np.uint64(0x9E3779B97F4A7C15)
            value ^= value >> np.uint64(29)
    return value


def _group(document: str) -> str:
    """Workloads whose heaviest stages are of one size, whatever type their elements have."""
    shape = shape_of(document)
    if shape is None:
        return hashlib.sha256(document.encode()).hexdigest()[:16]
    return f"{shape.points:.3f} {shape.reduced:.3f} {shape.loops}"


def _first_of_each(one: Taught, seen: set[int]) -> Taught:
    """Without the programs that another store's lesson of the same had already."""
    fresh = [np.array([int(p) not in seen for p in some], bool) for some in one.programs]
    seen.update(int(p) for some in one.programs for p in some)
    if all(keep.all() for keep in fresh):
        return one
    kept = [
        (_part(o, np.flatnonzero(keep)), some[keep])
        for o, some, keep in zip(one.observations, one.programs, fresh, strict=True)
        if keep.any()
    ]
    return replace(one, observations=tuple(o for o, _ in kept), programs=tuple(p for _, p in kept))


def _part(observation: Observation, where: NDArray[np.intp]) -> Observation:
    """Some of the rows; what was computed of them is kept."""
    order = None if observation.order is None else observation.order[where]
    return Observation(observation.batch.take(where), observation.latency_s[where], order)
