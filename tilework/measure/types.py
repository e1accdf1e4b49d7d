"""What a measurer is given and what it returns: plain, frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.errors import TileworkError
from tilework.record import Status


class MeasureError(TileworkError):
    """Measuring is impossible here, whatever the candidate: a worker cannot be started."""


@dataclass(frozen=True)
class Candidate:
    """A program to measure: a sketch of the task's space and a decision row.

    Attributes:
        predicted_score: what the model believed (higher is faster); kept for the record.
        model_id: which model that was.
    """

    sketch_id: int
    row: tuple[int, ...]
    predicted_score: float
    model_id: str


@dataclass(frozen=True)
class Measured:
    """How the measurement of one candidate ended.

    Attributes:
        error: empty when `status` is ok, else "stage: what happened", at most 512 characters.
        latency_s: median of the samples, in seconds; None unless `status` is ok.
        latency_samples: seconds per call, one value per undisturbed sample.
        latency_spread: interquartile range of the samples divided by their median.
        calibration_s: time of the fixed calibration loop before this batch, in seconds; see
            `tilework.measure.drift`.
        build_s: time that building took, in seconds.
        max_rel_error: largest deviation from the reference, relative to its largest magnitude.
        code_hash: identity of the generated code; empty when none was generated.
    """

    candidate: Candidate
    status: Status
    error: str = ""
    latency_s: float | None = None
    latency_samples: tuple[float, ...] = ()
    latency_spread: float | None = None
    calibration_s: float | None = None
    build_s: float | None = None
    max_rel_error: float | None = None
    code_hash: str = ""


@dataclass(frozen=True)
class BuildReply:
    """What a builder returns: a pickled kernel, or a status and an error text."""

    status: Status
    error: str = ""
    kernel: bytes = b""
    code_hash: str = ""
    build_s: float | None = None


@dataclass(frozen=True)
class RunReply:
    """What a runner returns for one kernel.

    Attributes:
        disturbed: which of the samples say something about the machine's other work; only of
            kernels timed in turns.
        tainted: the kernel wrote where it must not; the worker's memory cannot be trusted.
    """

    status: Status
    error: str = ""
    samples: tuple[float, ...] = ()
    max_rel_error: float | None = None
    tainted: bool = False
    disturbed: tuple[bool, ...] = ()


@dataclass(frozen=True)
class RunOptions:
    """How a runner verifies and times a kernel.

    Attributes:
        threads: threads of the timed calls.
        min_repeat_ms: a sample repeats the call until it lasts about this long.
        repeats: samples taken of a contender, if `time_budget_ms` allows; half as many more of
            what looks like the new best. Others end early: `tilework.runtime.sequential`.
        short_look: samples wanted of every candidate that is not given up.
        time_budget_ms: no further sample is begun after this long, once there is a short look.
        cold_cache_bytes: if not 0, a buffer of this size is read before every sample, and a
            sample is one call.
        rotate_bytes: large constant weights are timed in as many copies as fill this many bytes,
            one after another, so that they come from memory as they do in a network whose other
            weights pass through the caches in between; 0 times one copy.
    """

    threads: int
    min_repeat_ms: float = 1.0
    repeats: int = 12
    short_look: int = 3
    time_budget_ms: float = 30.0
    cold_cache_bytes: int = 0
    rotate_bytes: int = 96 << 20


def shorten(text: str, limit: int = 512) -> str:
    """Text on one line, cut in the middle to `limit` characters."""
    line = " ".join(text.split())
    half = (limit - 5) // 2
    return line if len(line) <= limit else f"{line[:half]} ... {line[-half:]}"


def describe_exception(stage: str, error: BaseException) -> str:
    """Text "stage: Kind: message (file:line)", of the innermost line that raised."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f" ({code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return shorten(f"{stage}: {type(error).__name__}: {error}{place}")
