"""How many operations a workload has, by what the store keeps of it: rows can say anything."""

from __future__ import annotations

from storage.documents import Documents
from storage.names import text_name
from tilework.errors import TileworkError

KIND = "workloads"


class Operations:
    """Operations of a store's workloads, each counted once.

    Args:
        documents: the store's, of kind `KIND`.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: dict[str, float] = {}

    def of(self, workload_key: str) -> float | None:
        """Operations of a workload; None if the store does not know what it computes."""
        if workload_key not in self._known:
            count = self._count(workload_key)
            if count is None:
                return None  # its document may come yet
            self._known[workload_key] = count
        return self._known[workload_key]

    def _count(self, workload_key: str) -> float | None:
        from tilework.te.serial import dag_from_json

        content = self._documents.read(text_name(workload_key))
        try:
            dag = None if content is None else dag_from_json(content.decode("utf-8", "replace"))
        except TileworkError:  # damaged, or of another version: `records check` says so
            return None
        return None if dag is None or dag.workload_key != workload_key else float(dag.flops)
