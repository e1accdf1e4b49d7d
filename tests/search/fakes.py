"""A synthetic space with the interface of the real one: exponents as decisions, a bowl as cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.measure.candidates import Candidate, Measured
from tilework.model import Batch, Observation
from tilework.record import Status
from tilework.search.pool import PoolSpace

FEATURES = (*(f"e{i}" for i in range(12)), "block", "sum")


def _seeded(*parts: object) -> np.random.Generator:
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


class FakeDag:
    symbols = ()

    def __init__(self, key: str):
        self.key = key

    def __str__(self) -> str:
        return f"fake dag {self.key}"


class FakeSketch:
    """D exponents, each in 0..cardinality; latency is a bowl with interactions in them.

    Its operators draw as those of `tilework.space.Sketch` do: a decision is one row of a table,
    here of one column; it moves a step or is redrawn; what is invalid or known is drawn again.
    """

    def __init__(self, key: str, id: int, decisions=8, blocks=3, base_s=1e-3, cardinality=7):
        self.id, self.name, self.blocks = id, f"fake{id}", blocks
        self.form, self.stages, self.num_live = self.name, {}, decisions
        self.target = FakeTarget()
        self.dag = FakeDag(f"{key} {id}")
        self.num_decisions = decisions
        self.cardinality = np.full(decisions, cardinality)
        rng = _seeded(key, id)
        self.centre = rng.uniform(1, cardinality - 2, decisions)
        self.wrong = self.centre + rng.normal(0, 1.0, decisions)
        self.weight = rng.uniform(0.02, 0.3, decisions)
        self.base_s = base_s

    def sample(self, rng, n):
        drawn = rng.integers(0, self.cardinality, (4 * n + 16, self.num_decisions))
        return drawn[self.valid(drawn)][:n].astype(np.int32)

    def mutate(self, rng, rows, taken=None):
        own = self.row_hash(rows)
        known = own if taken is None else np.concatenate([own, taken])
        children, open_ = rows.copy(), np.arange(len(rows))
        for draws in (1, 4):
            of = np.repeat(open_, draws)
            drawn = self._moved(rng, self._moved(rng, rows[of], 1.0), 0.3)
            good = np.flatnonzero(self.valid(drawn) & ~np.isin(self.row_hash(drawn), known))
            good = good[np.unique(drawn[good], axis=0, return_index=True)[1]]
            parent, first = np.unique(of[good], return_index=True)
            children[parent] = drawn[good[first]]
            known = np.concatenate([known, self.row_hash(children[parent])])
            open_ = np.setdiff1d(open_, parent)
        return children

    def _moved(self, rng, rows, share):
        """Of a share of the rows: one decision a step up or down, or any other choice."""
        out = rows.copy()
        at = np.flatnonzero(rng.random(len(rows)) < share)
        which = rng.integers(0, self.num_decisions, len(at))
        now, count = out[at, which], self.cardinality[which]
        step = np.clip(now + rng.choice((-1, 1), len(at)), 0, count - 1)
        other = (now + rng.integers(1, count)) % count
        out[at, which] = np.where((rng.random(len(at)) < 0.5) & (step != now), step, other)
        return out

    def neighbours(self, rows):
        return [self._around(row) for row in rows]

    def _around(self, row):
        parts = []
        for column, count in enumerate(self.cardinality):
            rows = np.repeat(np.asarray(row, np.int32).reshape(1, -1), count, axis=0)
            rows[:, column] = np.arange(count)
            parts.append(rows[(rows != row).any(axis=1)])
        rows = np.concatenate(parts)
        return rows[self.valid(rows)]

    def crossover(self, rng, rows_a, rows_b):
        children = np.where(rng.random(rows_a.shape) < 0.5, rows_a, rows_b)
        return self._valid_or(children, rows_a)

    def moved(self, rng, other, rows):
        raise AssertionError("no two of these sketches compute the same DAG")

    def _valid_or(self, children, parents):
        return np.where(self.valid(children)[:, None], children, parents)

    def valid(self, rows):
        return rows.sum(axis=1) < 0.8 * self.cardinality.sum()

    def canonical(self, rows):
        return rows

    def row_hash(self, rows):
        value = np.full(len(rows), 1469598103934665603, dtype=np.uint64)
        with np.errstate(over="ignore"):
            for column in range(rows.shape[1]):
                value = (value ^ rows[:, column].astype(np.uint64)) * np.uint64(1099511628211)
        return value

    def bowl(self, rows, centre):
        gap = rows - centre
        cost = 1 + (self.weight * gap**2).sum(axis=1) + 0.1 * np.abs(gap[:, 0] * gap[:, 1])
        return self.base_s * cost

    def latency(self, rows):
        return self.bowl(np.asarray(rows), self.centre)


@dataclass(frozen=True)
class FakeDraft:
    """The bowl of each sketch around a slightly wrong centre; features show the exponents."""

    names: tuple[str, ...] = FEATURES

    def machine(self, target):
        return {"slope": 1.0, "threads": float(target.num_cores)}

    def features(self, sketch, rows):
        table = np.zeros((len(rows), sketch.blocks, len(FEATURES)), dtype=np.float32)
        width = min(12, sketch.num_decisions)
        table[:, :, :width] = rows[:, None, :width]
        table[:, :, 12] = np.arange(sketch.blocks)
        table[:, :, 13] = rows.sum(axis=1)[:, None]
        return table

    def block_seconds(self, sketch, rows):
        return np.repeat(
            self.seconds(sketch, rows)[:, None] / sketch.blocks, sketch.blocks, axis=1
        )

    def seconds(self, sketch, rows):
        return sketch.bowl(rows, sketch.wrong)

    def least(self, sketch, closely=False, alone=False):
        return 0.0

    def lengths(self, sketch, rows):
        return np.zeros(len(rows))


DRAFT = FakeDraft()


@dataclass(frozen=True, eq=False)
class FakeSpace:
    sketches: tuple[FakeSketch, ...]


@dataclass(frozen=True)
class FakeTarget:
    text: str = "llvm -mcpu=fake"
    kind: str = "llvm"  # whose rules version the records carry
    num_cores: int = 2

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class FakeTask:
    workload_key: str
    flops: float = 1e8
    desc: str = "fake"
    weight: int = 1
    target: FakeTarget = FakeTarget()
    base_s: float = 1e-3
    fails: bool = False
    small: bool = False

    @property
    def compute_dag(self) -> FakeDag:
        return FakeDag(self.workload_key)

    @property
    def space(self) -> FakeSpace:
        if self.small:  # 9 programs in all
            return FakeSpace((FakeSketch(self.workload_key, 0, 2, 1, self.base_s, 3),))
        return FakeSpace(
            (
                FakeSketch(self.workload_key, 0, 8, 3, self.base_s),
                FakeSketch(self.workload_key, 1, 5, 2, self.base_s * 1.5),
            )
        )


def observation(task: FakeTask, sketch: FakeSketch, rows, fail_every: int = 0) -> Observation:
    latency = sketch.latency(rows)
    if fail_every:
        latency[::fail_every] = np.inf
    return Observation(Batch(task.workload_key, task.flops, sketch, rows, DRAFT), latency)


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeMeasurer:
    """Answers from the fake sketches' latency; each candidate takes ``seconds`` of the clock."""

    def __init__(self, clock: FakeClock | None = None, seconds: float = 0.1, noise: float = 0.0):
        self.clock, self.seconds, self.noise = clock, seconds, noise
        self.rounds: list[tuple[str, list[Candidate]]] = []
        self.finals_of: list[tuple[str, list[Candidate]]] = []
        self.interrupt_after: int | None = None

    def measure(self, task, candidates, best_latency_s):
        if self.interrupt_after is not None and len(self.rounds) >= self.interrupt_after:
            raise KeyboardInterrupt
        self.rounds.append((task.workload_key, list(candidates)))
        if self.clock is not None:
            self.clock.now += self.seconds * len(candidates)
        return [self._one(task, candidate) for candidate in candidates]

    def finals(self, task, candidates):
        self.finals_of.append((task.workload_key, list(candidates)))
        noise, self.noise = self.noise, 0.0
        try:
            return [self._one(task, candidate) for candidate in candidates]
        finally:
            self.noise = noise

    def _one(self, task, candidate):
        if task.fails:
            error = f"build: ValueError: axis {candidate.row[0]} is {hex(id(task))}"
            return Measured(candidate, Status.compile_error, error)
        sketch = task.space.sketches[candidate.sketch_id]
        latency = float(sketch.latency(np.array([candidate.row]))[0])
        jitter = _seeded(candidate.row).normal(0, self.noise) if self.noise else 0.0
        return Measured(candidate, Status.ok, latency_s=latency * (1 + jitter))


def space_of(task: FakeTask) -> PoolSpace:
    return PoolSpace(task.space.sketches, DRAFT, RULES_VERSION)
