"""What a tuning run reports: plain frozen values, ready for tables, JSON and artifacts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TaskRow:
    """One line of the task table.

    Attributes:
        weight: how often the network runs this task.
        latency_s: best measured time of one run in seconds; None while nothing is measured.
        trials: measurements spent, failed ones included.
        failed: measurements that did not end in status ``ok``.
    """

    id: int
    description: str
    workload_key: str
    weight: int
    flops: float
    latency_s: float | None
    trials: int
    failed: int

    @property
    def gflops(self) -> float | None:
        """Speed of the best schedule in GFLOP/s."""
        return self.flops / self.latency_s / 1e9 if self.latency_s else None


@dataclass(frozen=True)
class Progress:
    """A tuning run between two rounds.

    Attributes:
        current: ID of the task that was just measured, None before the first round.
        elapsed_s: seconds spent in this process.
        trials_budget, seconds_budget: what may be spent in all; None is no limit.
    """

    rows: tuple[TaskRow, ...]
    rounds: int
    trials: int
    elapsed_s: float
    trials_budget: int | None
    seconds_budget: float | None
    current: int | None = None

    @property
    def estimated_total_s(self) -> float | None:
        """Sum of the best latencies times weights; None while a task has no measurement."""
        if any(row.latency_s is None for row in self.rows):
            return None
        return sum(row.weight * (row.latency_s or 0.0) for row in self.rows)

    @property
    def measured_tasks(self) -> int:
        """Tasks with at least one valid measurement."""
        return sum(row.latency_s is not None for row in self.rows)


@dataclass(frozen=True)
class Timing:
    """End-to-end latency of one engine, in milliseconds."""

    median_ms: float
    mean_ms: float
    min_ms: float
    max_ms: float
    std_ms: float


@dataclass(frozen=True)
class CheckResult:
    """How far the compiled network's outputs are from the reference's.

    ``max_rel_error`` is the largest absolute difference divided by the largest absolute output.
    """

    reference: str
    max_rel_error: float
    tolerance: float = 1e-3

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance (NaN is not)."""
        return self.max_rel_error <= self.tolerance


@dataclass(frozen=True)
class TuneReport:
    """The outcome of a tuning run.

    ``before`` and ``after`` are measured interleaved in one go: the network compiled without any
    record and with the best ones. ``interrupted`` means that the budget was not used up.
    """

    run_id: str
    network: str
    target: str
    store: str
    module: str
    progress: Progress
    before: Timing | None
    after: Timing | None
    check: CheckResult | None
    interrupted: bool = False
    resumed_rounds: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        """Median latency before tuning divided by the median after."""
        if self.before is None or self.after is None:
            return None
        return self.before.median_ms / self.after.median_ms
