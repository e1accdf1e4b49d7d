"""What a measurer is given and what it returns: plain, frozen, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilework.frozen import frozen
from tilework.record import Status


@frozen
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


@frozen
class Measured:
    """How the measurement of one candidate ended.

    Attributes:
        error: empty when `status` is ok, else "stage: what happened", at most 512 characters.
        latency_s: median of the samples, in seconds; None unless `status` is ok.
        latency_samples: seconds per call, one value per undisturbed sample.
        latency_spread: interquartile range of the samples divided by their median.
        calibration_s: time of the device's fixed piece of work before this batch, in seconds; see
            `tilework.measure.drift`.
        build_s: time that building took, in seconds.
        max_rel_error: largest deviation from the reference, relative to its largest magnitude.
        code_hash: identity of the generated code; empty when none was generated.
        facts: what is known of the code without running it, see `tilework.lower.kernel.Kernel`.
        compiler: what made the code, see `tilework.lower.protocol.Builder.compiler`.
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
    facts: Mapping[str, float] = field(default_factory=dict)
    compiler: str = ""
