"""What the search asks of tasks, of the sketches of their spaces, and of what measures them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tilework.measure.candidates import Candidate, Measured

Rows = NDArray[np.int32]


class Task(Protocol):
    """What is tuned; a `tilework.task.SearchTask` is one."""

    @property
    def workload_key(self) -> str:
        """Identity of what is computed, and of its space."""

    @property
    def flops(self) -> float:
        """Floating-point operations of one evaluation."""

    @property
    def desc(self) -> str:
        """A short readable name."""

    @property
    def weight(self) -> int:
        """Appearances in the network."""

    @property
    def target(self) -> Any:
        """The machine; its text tells records of different machines apart."""

    @property
    def compute_dag(self) -> Any:
        """What is computed."""


class MeasurerLike(Protocol):
    """Builds, verifies and times candidates; see `tilework.measure.Measurer`."""

    def measure(
        self,
        task: Task,
        candidates: list[Candidate],
        best_latency_s: float | None,
        *,
        limit: int | None = None,
    ) -> list[Measured]:
        """One result per candidate, in order; never raises for a candidate.

        Sessions that build more than they measure say with `limit` how many should run.
        """


@runtime_checkable
class TimesFinals(Protocol):
    """A measurer that can time candidates in turns; see `tilework.measure.Measurer.finals`."""

    def finals(self, task: Task, candidates: Sequence[Candidate]) -> list[Measured]:
        """One result per candidate, in order; their latencies may be compared closely."""


class Searchable(Protocol):
    """A sketch: operators over its decision rows, int32, P x D; a `tilework.space.Sketch` is one.

    Operators that draw return valid rows only.
    """

    @property
    def id(self) -> int:
        """Position of the sketch in its space."""

    @property
    def target(self) -> Any:
        """The machine that it is for: `tilework.target.Target`."""

    @property
    def num_decisions(self) -> int:
        """D, columns of a row."""

    @property
    def num_live(self) -> int:
        """Decisions with more than one choice."""

    @property
    def form(self) -> str:
        """What its DAG is, in words; see `tilework.space.siblings`."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        """What becomes of each stage: sketches that differ in one are siblings."""

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` random rows."""

    def mutate(
        self, rng: np.random.Generator, rows: Rows, taken: NDArray[np.uint64] | None = None
    ) -> Rows:
        """One child of each row, in which little has changed; ``taken`` are hashes to avoid."""

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """One child of each pair, which takes every decision from either parent."""

    def moved(self, rng: np.random.Generator, other: Any, rows: Rows) -> Rows:
        """Rows of this sketch like ``rows`` of a sibling."""

    def neighbours(self, rows: Rows) -> Sequence[Rows]:
        """Of each row, all rows that differ from it in exactly one decision."""

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are programs within the target's limits."""

    def canonical(self, rows: Rows) -> Rows:
        """The rows without what has no effect: what is measured in their place."""

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """Identity of each row's program within the sketch."""
