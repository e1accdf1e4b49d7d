"""Measurement: builders, a runner, worker processes, verification on any kind of device."""

from __future__ import annotations

from tilework.measure.candidates import Candidate, Measured
from tilework.measure.measurer import MeasureError, Measurer
from tilework.measure.records import to_records
from tilework.measure.settings import Settings

__all__ = ["Candidate", "MeasureError", "Measured", "Measurer", "Settings", "to_records"]
