"""Measurement: builders, a runner, worker processes, verification and timing statistics."""

from __future__ import annotations

from tilework.measure.measurer import Measurer
from tilework.measure.records import to_records
from tilework.measure.types import Candidate, Measured, MeasureError
from tilework.runtime.samples import RunDelay, Samples, interleave, paired_ratio

__all__ = [
    "Candidate", "MeasureError", "Measured", "Measurer", "RunDelay", "Samples", "interleave",
    "paired_ratio", "to_records",
]  # fmt: skip
