"""How the best records of two stores or packages differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from storage.files import Location
from storage.maintenance.bests_store import best_records
from storage.packages.places import is_package, read_package
from tilework.errors import StoreError
from tilework.record import Record

State = Literal["same", "only in A", "only in B", "rules", "schedule", "engine"]


@dataclass(frozen=True)
class Difference:
    """What two collections say of a workload on a target and a device.

    Attributes:
        state: ``same`` schedule; ``only in A`` or ``only in B``; other ``rules``, under which
            schedules do not compare; another ``schedule``; or the same one of another version of
            the ``engine``.
        a, b: the best record of either side; None where it has none.
    """

    state: State
    a: Record | None
    b: Record | None

    @property
    def of(self) -> Record:
        """Either record: workload, target and device are the same."""
        record = self.a or self.b
        assert record is not None
        return record

    @property
    def ratio(self) -> float | None:
        """Latency of B over that of A, both of one device; None where a side has none."""
        if self.a is None or self.b is None or not self.a.latency_s or not self.b.latency_s:
            return None
        return self.b.latency_s / self.a.latency_s


def diff(a: Iterable[Record], b: Iterable[Record]) -> list[Difference]:
    """Compares bests: by workload, target and device, of the newest rules on either side."""
    left, right = _by_place(a), _by_place(b)
    places = sorted(left.keys() | right.keys())
    return [_compared(left.get(place), right.get(place)) for place in places]


def bests_in(text: str) -> list[Record]:
    """The best records of a store or package.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    if is_package(text):
        return read_package(text).records
    place = Location.of(text)
    if not place.is_there():
        raise StoreError(f"there is no record store at {place.text!r}")
    return best_records(place)


def _by_place(records: Iterable[Record]) -> dict[tuple[str, str, str], Record]:
    bests: dict[tuple[str, str, str], Record] = {}
    for record in records:
        place = (record.target, record.workload_key, record.device_id or record.host)
        known = bests.get(place)
        if known is None or _rank(record) > _rank(known):
            bests[place] = record
    return bests


def _rank(record: Record) -> tuple[object, ...]:
    """Of one device that was slower for a while, what was measured last counts."""
    return record.rules_version, record.created_at, record.record_id


def _compared(a: Record | None, b: Record | None) -> Difference:
    if a is None or b is None:
        return Difference("only in A" if b is None else "only in B", a, b)
    state: State = "same"
    if a.rules_version != b.rules_version:
        state = "rules"
    elif (a.sketch_id, a.decisions) != (b.sketch_id, b.decisions):
        state = "schedule"
    elif a.engine_version != b.engine_version:
        state = "engine"
    return Difference(state, a, b)
