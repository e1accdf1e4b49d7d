"""The only code that knows Parquet: records of measurements, read and written as a dataset."""

from __future__ import annotations

from storage.store import RecordStore

__all__ = ["RecordStore"]

OWNER = "tilework"  # tells it from other packages of this name: tilework/shadows.py
