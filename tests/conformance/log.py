"""A record log in a folder, one JSON file a round: what a killed run finds again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tilework.record import MemoryHistory, Purpose, Record, Status


class FileLog(MemoryHistory):
    """`tilework.record.RecordLog` without Parquet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        super().__init__()
        for path in sorted(folder.glob("*.json")):
            super().append(map(_record, json.loads(path.read_text())))

    def append(self, records: Iterable[Record]) -> None:
        rows = list(records)
        super().append(rows)
        if rows:
            path = self._folder / f"{rows[0].record_id}.json"
            part = path.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps([asdict(r) for r in rows], default=datetime.isoformat))
            part.replace(path)


def _record(row: dict) -> Record:
    row |= {
        "created_at": datetime.fromisoformat(row["created_at"]),
        "decisions": tuple(row["decisions"]),
        "latency_samples": tuple(row["latency_samples"]),
        "status": Status(row["status"]),
        "purpose": Purpose(row["purpose"]),
    }
    return Record(**row)
