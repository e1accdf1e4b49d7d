"""Measurement: builders, a runner, worker processes, verification on any kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.measure.candidates import Candidate, Measured
    from tilework.measure.measurer import MeasureError, Measurer
    from tilework.measure.records import to_records
    from tilework.measure.settings import Settings

__getattr__ = names_of(
    __name__,
    {
        "candidates": ("Candidate", "Measured"),
        "measurer": ("MeasureError", "Measurer"),
        "records": ("to_records",),
        "settings": ("Settings",),
    },
)

__all__ = ["Candidate", "MeasureError", "Measured", "Measurer", "Settings", "to_records"]
