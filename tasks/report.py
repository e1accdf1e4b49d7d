"""What a tuning run reports: plain frozen values, ready for tables, JSON and artifacts."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks.slower import excuse
from tilework.latency import digits
from tilework.search.report import TaskRow


@dataclass(frozen=True)
class Progress:
    """A tuning run between two rounds.

    Attributes:
        target: what it tunes for.
        rows: the task table.
        rounds, trials, elapsed_s: spent by the run, rounds of earlier processes included.
        estimated_total_s: sum of the tasks' latencies times weights; a task without a
            measurement counts as the draft model predicts it.
        trials_budget, seconds_budget: what may be spent in all; None is no limit.
        current: ID of the task that was just measured, None before the first round.
    before_s, after_s: its best latency before that round and after it; None if there is none.
    measured: candidates of that round.
        failed: measurements of that round that did not end in status ``ok``.
        final: whether that round were finals: known candidates, timed in turns.
        drift: how much slower than usual the machine was in that round; 0.1 is 10 %.
        finals: tasks whose best schedule was chosen by finals.
        drifted_rounds: rounds of the run in which the machine was noticeably off its usual speed.
        disturbed: IDs of tasks whose finals were far off from their own earlier records,
            and by which factor.
    """

    target: str
    rows: tuple[TaskRow, ...]
    rounds: int
    trials: int
    elapsed_s: float
    estimated_total_s: float
    trials_budget: int | None
    seconds_budget: float | None
    current: int | None = None
    before_s: float | None = None
    after_s: float | None = None
    measured: int = 0
    failed: int = 0
    final: bool = False
    drift: float = 0.0
    finals: int = 0
    drifted_rounds: int = 0
    disturbed: tuple[tuple[int, float], ...] = ()

    @property
    def measured_tasks(self) -> int:
        """Tasks with at least one valid measurement."""
        return sum(row.latency_ms is not None for row in self.rows)


@dataclass(frozen=True)
class Timing:
    """End-to-end latency of one engine, in milliseconds."""

    median_ms: float
    mean_ms: float
    min_ms: float
    max_ms: float
    std_ms: float


@dataclass(frozen=True)
class Loss:
    """How far the outputs of a quantised network are from those in float32.

    Attributes:
        largest: the largest difference, divided by the largest magnitude of its output.
        mean: of the magnitudes of differences, divided likewise; the worst output's.
        samples: on how many it was measured.
        agreeing, classified: rows of outputs of two axes whose largest element is at the same
            place, and how many rows there were; 0 of 0 without such outputs.
        what: is in place of float32.
    """

    largest: float
    mean: float
    samples: int
    agreeing: int = 0
    classified: int = 0
    what: str = "8 bits"

    def __str__(self) -> str:
        """In a line, for people."""
        said = (
            f"{self.what} against float32, on {self.samples} sample{'s' * (self.samples != 1)}: "
            f"largest error {digits(100 * self.largest)} % of the largest output, "
            f"mean error {digits(100 * self.mean)} %"
        )
        if self.classified:
            said += f"; the same class first in {self.agreeing} of {self.classified}"
        return said


TOLERANCES = {"f32": 1e-3, "bf16": 0.1, "f16": 1e-2, "tf32": 1e-2}
"""What a network's output may differ from float32, by precision.

A value in bfloat16 is off by 2^-8 of itself or less. Over the tens of layers of a network such
errors, independent of each other, grow to 2e-3 to 2e-2 of the largest output; a kernel that
computes something else is off by its whole size. Numbers in float16, and factors in tf32, are off
by an eighth of that. Kernels themselves are checked far closer when
they are measured."""


@dataclass(frozen=True)
class CheckResult:
    """How far the compiled network's outputs are from the reference's.

    ``max_rel_error`` is the largest absolute difference divided by the largest absolute output;
    ``call`` is one that is wrong by itself, if calls were looked at and one is.
    """

    reference: str
    max_rel_error: float
    tolerance: float = TOLERANCES["f32"]
    call: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance (NaN is not)."""
        return self.max_rel_error <= self.tolerance

    @property
    def fault(self) -> str:
        """What is wrong, in words; empty if it passed."""
        if self.passed:
            return ""
        return (
            f"the output is wrong: maximum relative error {self.max_rel_error:.1e} against "
            f"{self.reference}, where {self.tolerance:.0e} is allowed"
            + (f"; {self.call} is wrong by itself" if self.call else "")
        )


@dataclass(frozen=True)
class Standing:
    """A compiled network beside what it would replace, timed in turns.

    Attributes:
        untuned: the network compiled without any record.
        tuned: with the best records.
        old: the module that the new one would replace; None where there is none to compare with.
        over_untuned, over_old: the tuned network's time over the other's, pair by pair.
        slower_than: which of the two it is slower than beyond doubt; empty if none. A module that
            is slower than the old one is not kept; in place of one that is slower than the untuned
            network, the untuned network is.
        note: a line on the old module, if it is replaced although it was faster.
    """

    untuned: Timing
    tuned: Timing
    over_untuned: float
    old: Timing | None = None
    over_old: float | None = None
    slower_than: str = ""
    note: str = ""

    @property
    def untuned_kept(self) -> bool:
        """Whether the search found nothing that is as fast as the untuned network."""
        return self.slower_than == "untuned"

    @property
    def kept(self) -> Timing:
        """The time of the module that is kept."""
        return self.untuned if self.untuned_kept else self.tuned

    def words(self) -> list[str]:
        """How fast the tuned network is beside each of the others, for the verdict."""
        if self.untuned_kept:
            return [
                f"the untuned network: what was found takes {self.over_untuned:.2f} times as long"
            ]
        parts = [_beside("untuned", self.over_untuned, self.tuned, self.untuned)]
        if self.old is not None and self.over_old is not None:
            parts.append(_beside("the module before", self.over_old, self.tuned, self.old))
        return parts


def _beside(what: str, over: float, new: Timing, old: Timing) -> str:
    words = f"{1 / over:.2f} times as fast as {what}"
    excused = excuse(over, 1e-3 * new.median_ms, 1e-3 * old.median_ms)
    return f"{words} ({excused})" if excused else words


@dataclass(frozen=True)
class Finished:
    """What follows a search: module, check, times; empty for a simulated target.

    Attributes:
        module: where it was kept; empty if it was not.
        check: of its output; None where this machine cannot run it.
        standing: its time beside the untuned network's and the old module's.
        gap: where the network loses time against its tasks' records; see `TuneReport`.
        failed: why the module must not be used and was not kept; empty if it may be.
    """

    module: str = ""
    check: CheckResult | None = None
    standing: Standing | None = None
    gap: tuple[str, ...] = ()
    failed: str = ""


@dataclass(frozen=True)
class TuneReport:
    """The outcome of a tuning run.

    ``standing`` has the network compiled without any record, with the best ones, and the module
    that was there before, measured interleaved in one go. ``failed`` says why the module must not
    be used and was not kept, and is empty if all is well. ``weights`` are the calls of each
    workload. ``stopped`` says why the search ended; ``resumed_rounds`` were
    found in the store and not measured again; ``failures`` counts measurements by status. ``gap``
    says, where the network takes over a tenth longer than its tasks on record, which kernels do.
    ``model`` says which cost model the search began with, ``left`` what of the network another
    engine runs.
    For a simulated target there is no module, no check and no timing.
    """

    run_id: str
    network: str
    target: str
    store: str
    module: str
    progress: Progress
    check: CheckResult | None = None
    standing: Standing | None = None
    failed: str = ""
    stopped: str = ""
    resumed_rounds: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    gap: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    model: str = ""
    left: str = ""
    loss: Loss | None = None

    @property
    def verdict(self) -> str:
        """What became of the module, in one line: the first thing that somebody should read."""
        if self.failed:
            return f"FAILED: {self.failed}"
        words = []
        if self.check is not None:
            words.append(
                f"output right (maximum relative error {self.check.max_rel_error:.1e} against "
                f"{self.check.reference})"
            )
        if self.standing is not None:
            words += self.standing.words()
        if not words:
            return "no module: nothing was compiled"
        return ("kept: " if self.module else "good, not kept: ") + ", ".join(words)

    @property
    def before(self) -> Timing | None:
        """End-to-end latency of the untuned network."""
        return None if self.standing is None else self.standing.untuned

    @property
    def after(self) -> Timing | None:
        """End-to-end latency of the tuned network."""
        return None if self.standing is None else self.standing.tuned

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the untuned network it is: the median over pairs of samples.

        On a busy machine it is not quite the ratio of the two medians, and closer to the truth.
        """
        return None if self.standing is None else 1 / self.standing.over_untuned
