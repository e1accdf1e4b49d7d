"""Packages as a history that a compile asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from storage.packages.index import Content
from storage.packages.models import ServingModel
from storage.rules import present_rules
from tilework.errors import TileworkError
from tilework.overriding import override
from tilework.record import Catalogue, Record, WorkloadLog, by_age
from tilework.target import Target
from tilework.target.identity import DeviceIdentity

Key = tuple[str, str]
"""Target and workload key."""


class PackageHistory(Catalogue, WorkloadLog):
    """What packages know: a `tilework.record.History` that keeps nothing.

    Only records of the present rules count. A target is answered with its own records, and with
    those of targets that are the same kind of machine under another name
    (`tilework.target.Target.traits`): the record then carries the name that was asked for. Which
    file came first decides nothing.

    Args:
        packages: by name.
        what: what to call one of them, before its name.
    """

    def __init__(self, packages: Mapping[str, Content], what: str = "package") -> None:
        self._packages = dict(sorted(packages.items()))
        self._what = what
        self._rows: dict[Key, list[tuple[str, int]]] = defaultdict(list)
        self._known: dict[Key, list[Record]] = {}
        self._from: dict[str, str] = {}
        self._traits: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        for name, package in self._packages.items():
            for row, (target, workload, version) in enumerate(package.places()):
                if version == _rules(target):
                    self._rows[target, workload].append((name, row))
            for target, traits in package.manifest.traits.items():
                self._traits[target].append(traits)
        self._keys = sorted(self._rows)
        self._workloads = {workload for _, workload in self._keys}

    @override
    def of(
        self, workload_key: str, target: str, device: DeviceIdentity | None = None
    ) -> list[Record]:
        records = self._of_key((target, workload_key))
        return [record for record in records if device is None or device.owns(record)]

    @override
    def keys(self) -> list[Key]:
        return list(self._keys)

    def knows(self, workload_key: str, kind: str) -> bool:
        """See `tilework.record.Knowing`."""
        models = any(kind in package.models for package in self._packages.values())
        return models or workload_key in self._workloads

    @override
    def workload(self, workload_key: str) -> str | None:
        known = (package.workloads.get(workload_key) for package in self._packages.values())
        return next((text for text in known if text is not None), None)

    @override
    def workload_keys(self, target: str) -> list[str]:
        return sorted(workload for where, workload in self._rows if where == target)

    def keep_workload(self, workload_key: str, document: str) -> None:
        """Keeps nothing: packages are never changed."""

    def champion(self, kind: str, target: str | None = None) -> str | None:
        """See `tilework.record.ModelLog.champion`: of the first package with one that serves."""
        for package in self._packages.values():
            model = ServingModel.from_json(package.models.get(kind, ""))
            if model is not None and model.is_for(target):
                return model.document
        return None

    def origin(self, record: Record) -> str:
        """Which package a record is from, such as ``package zoo-znver4``; empty if none has it."""
        self.of(record.workload_key, record.target)
        name = self._from.get(record.record_id)
        return "" if name is None else f"{self._what} {name}"

    def _of_key(self, key: Key) -> list[Record]:
        if key not in self._known:
            records: dict[str, Record] = {}
            for target in (key[0], *self._kin(key[0])):
                for name, row in self._rows.get((target, key[1]), ()):
                    record = self._packages[name].record(row)
                    records.setdefault(record.record_id, replace(record, target=key[0]))
                    self._from.setdefault(record.record_id, name)
            self._known[key] = sorted(records.values(), key=by_age)
        return self._known[key]

    def _kin(self, target: str) -> list[str]:
        """Targets of packages that are the same kind of machine under another name."""
        traits = _traits_of(target)
        if not traits:
            return []
        return sorted(
            other
            for other, known in self._traits.items()
            if other != target and any(dict(theirs) == traits for theirs in known)
        )


@lru_cache(maxsize=64)
def _traits_of(target: str) -> dict[str, str]:
    try:
        return Target(target).traits()
    except TileworkError:
        return {}


@lru_cache(maxsize=64)
def _rules(target: str) -> int | None:
    return present_rules(target)
