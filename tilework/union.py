"""Several histories as one: a store that was given, packages beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from tilework.overriding import override
from tilework.record import (
    Catalogue,
    History,
    ModelLog,
    Record,
    WorkloadLog,
    best_elsewhere,
    best_of,
    by_age,
)
from tilework.target.identity import DeviceIdentity


class Union(Catalogue, WorkloadLog):
    """A history over several ones. A record that several of them hold counts once.

    What this device measured counts wherever it stands. Of other devices, what an earlier history
    says goes before what a later one says: `tilework.record.layers_of`. The same histories give
    the same answers, in whatever order their own files are read.

    Attributes:
        layers: the histories.
    """

    def __init__(self, layers: Sequence[History]) -> None:
        self._layers = tuple(layers)

    @property
    def layers(self) -> tuple[History, ...]:
        """See the class's text."""
        return self._layers

    @override
    def best(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> Record | None:
        bests = (layer.best(workload_key, target, device) for layer in self.layers)
        return best_of(_each_once(record for record in bests if record is not None))

    @override
    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        return _in_order(layer.of(workload_key, target, device) for layer in self.layers)

    @override
    def hints(self, workload_key: str, target: str, device: DeviceIdentity | None) -> list[Record]:
        records = [layer.hints(workload_key, target, device) for layer in self.layers]
        return best_elsewhere(_in_order(records), device)

    @override
    def keys(self) -> list[tuple[str, str]]:
        keys = [layer.keys() for layer in self.layers if isinstance(layer, Catalogue)]
        return keys[0] if len(keys) == 1 else sorted(set(chain.from_iterable(keys)))

    @override
    def workload(self, workload_key: str) -> str | None:
        return self._first(lambda layer: _workload(layer, workload_key))

    @override
    def workload_keys(self, target: str) -> list[str]:
        return [workload_key for where, workload_key in self.keys() if where == target]

    def keep_workload(self, workload_key: str, document: str) -> None:
        """Keeps nothing: a union is for reading."""

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """See `tilework.record.ModelLog.champion`: of the first history that has one."""
        return self._first(lambda layer: _champion(layer, kind, target))

    def origin(self, record: Record) -> str:
        """Which package a record comes from; empty if the first history has it, or none."""
        for layer in self.layers:
            same = layer.of(record.workload_key, record.target)
            if any(one.record_id == record.record_id for one in same):
                origin_in = getattr(layer, "origin", None)
                return "" if origin_in is None else str(origin_in(record))
        return ""

    def _first(self, ask: Callable[[History], str | None]) -> str | None:
        return next((answer for layer in self.layers if (answer := ask(layer)) is not None), None)


def _workload(layer: History, workload_key: str) -> str | None:
    return layer.workload(workload_key) if isinstance(layer, WorkloadLog) else None


def _champion(layer: History, kind: str, target: str | None) -> str | None:
    return layer.champion(kind, target) if isinstance(layer, ModelLog) else None


def _each_once(records: Iterable[Record]) -> list[Record]:
    by_id: dict[str, Record] = {}
    for record in records:
        by_id.setdefault(record.record_id, record)
    return list(by_id.values())


def _in_order(parts: Iterable[Iterable[Record]]) -> list[Record]:
    """Records of several histories, each once, oldest first."""
    once = _each_once(chain.from_iterable(parts))
    return sorted(once, key=by_age)
