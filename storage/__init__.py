"""The only code that knows Parquet: records of measurements, read and written as a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storage.store import RecordStore

__all__ = ["RecordStore"]

OWNER = "tilework"  # tells it from other packages of this name: tilework/shadows.py


def __getattr__(name: str) -> Any:
    if name != "RecordStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from storage.store import RecordStore  # with it comes pyarrow

    return RecordStore
