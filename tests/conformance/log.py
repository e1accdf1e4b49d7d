"""A record log in a folder, one JSON file a round: what a killed run finds again."""

from __future__ import annotations

import hashlib
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
        for path in sorted(folder.glob("*.workload")):
            super().keep_workload(*json.loads(path.read_text()))

    def keep_workload(self, workload_key: str, document: str) -> None:
        known = self.workload(workload_key)
        super().keep_workload(workload_key, document)
        if known is None:
            name = hashlib.sha256(workload_key.encode()).hexdigest()[:16]
            self._write(f"{name}.workload", json.dumps([workload_key, document]))

    def append(self, records: Iterable[Record]) -> None:
        rows = list(records)
        super().append(rows)
        if rows:
            text = json.dumps([asdict(r) for r in rows], default=datetime.isoformat)
            self._write(f"{rows[0].record_id}.json", text)

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text)
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
