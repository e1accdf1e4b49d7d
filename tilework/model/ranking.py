"""How well a model ranked candidates before it had seen them: per task, beside the draft model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilework.model.base import Floats
from tilework.model.metrics import ranking_metrics

WINDOW = 96
"""Latest predictions of a task that count."""
FEWEST = 8


class RankingLog:
    """Predictions that were made before the measurement, and what was then measured."""

    def __init__(self) -> None:
        self._rows: dict[str, np.ndarray] = {}
        self._restored: dict[str, dict[str, Any]] = {}

    def add(self, workload_key: str, learned: Floats, draft_s: Floats, latency_s: Floats) -> None:
        """Note the predictions of measured candidates; those that failed are left out."""
        ok = np.isfinite(latency_s)
        new = np.stack([learned, -draft_s, latency_s], axis=1)[ok]
        known = self._rows.get(workload_key)
        rows = new if known is None else np.concatenate([known, new])
        self._rows[workload_key] = rows[-WINDOW:]

    def table(self) -> dict[str, dict[str, Any]]:
        """By workload: how many candidates, and the metrics of the learned and the draft model."""
        table = dict(self._restored)
        for key, rows in sorted(self._rows.items()):
            if len(rows) >= FEWEST:
                table[key] = {
                    "records": len(rows),
                    "learned": ranking_metrics(rows[:, 0], rows[:, 2]),
                    "draft": ranking_metrics(rows[:, 1], rows[:, 2]),
                }
        return table

    def restore(self, table: dict[str, dict[str, Any]]) -> None:
        """Take over the table of a stored model."""
        self._restored = dict(table)
