"""Results of timing a compiled network."""

from __future__ import annotations

from statistics import fmean, median, pstdev

from tilework.frozen import frozen
from tilework.runtime.samples import Call, take_samples


@frozen
class BenchmarkResult:
    """Milliseconds per run, one value per repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean, in ms."""
        return fmean(self.results)

    @property
    def median(self) -> float:
        """Median, in ms."""
        return median(self.results)

    @property
    def max(self) -> float:
        """Largest, in ms."""
        return max(self.results)

    @property
    def min(self) -> float:
        """Least, in ms."""
        return min(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the repeats, in ms."""
        return pstdev(self.results)

    def __str__(self) -> str:
        names = ("mean (ms)", "median (ms)", "max (ms)", "min (ms)", "std (ms)")
        values = (self.mean, self.median, self.max, self.min, self.std)
        return "\n".join(
            [
                "Execution time summary:",
                " ".join(f"{name:^12}" for name in names),
                " ".join(f"{value:^12.4f}" for value in values),
            ]
        )


@frozen
class KernelTime:
    """One kernel call of a profiled network.

    Attributes:
        name: the fused operators.
        desc: operators and extents.
        time_ms: median time of the call.
        share: of the whole run.
        gflops: 1e9 operations per second.
        gb_per_s: argument bytes per second, in 1e9: the bandwidth if nothing was cached.
        roofline: the least time that the machine's peaks allow, as a share of the time. Operations
            are those of the direct form, so a Winograd schedule may pass 1.
        symbol: name of the kernel's function.
    """

    name: str
    desc: str
    time_ms: float
    share: float
    gflops: float
    gb_per_s: float
    roofline: float
    symbol: str


def time_runs(call: Call, repeat: int, min_repeat_ms: float) -> BenchmarkResult:
    """Time a run that has been made once before.

    On a busy machine samples are discarded; a budget of twice the time that was asked for, and a
    second, bounds how long that goes on.
    """
    min_sample_s = min_repeat_ms / 1e3
    samples = take_samples(
        call,
        repeats=repeat,
        min_sample_s=min_sample_s,
        budget_s=2 * repeat * min_sample_s + 1,
        short_look=min(repeat, 3),
    )
    return BenchmarkResult(tuple(1e3 * s for s in samples.seconds))
