"""Measurements of one workload on one target as arrays: what is learnt from many records.

A record as an object costs more than all that a model wants of it. A history that can hand out
columns is a `TrialLog`; of any other the records are read and put together here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.record import History, Purpose, Record, Status
from tilework.target.identity import SAME_SPEED, DeviceIdentity

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

TEACHING = (Purpose.search, Purpose.final)
"""Purposes of records that say how fast a program is."""


@frozen(eq=False)
class Trials:
    """Candidates of one workload on one target that were measured or failed, N of them.

    What watched the machine, what was refused before it ran, and what was lost with its worker
    says nothing of a program and is no part of them.

    Attributes:
        target, workload_key: of what; the target as its canonical text.
        rules_version, sketch_id: int32, N.
        decisions: int32, the rows one after another.
        offsets: int64, N + 1: where each row begins and the last one ends.
        latency_s: N seconds; inf for a candidate that failed.
        final: whether finals measured it: their latency replaces that of the same program.
        device: int32, N: which of `devices` it ran on.
        devices: what devices are told by: their `device_id` and name.
        calibration_s: N seconds, nan where unknown: how fast the device was.
    """

    target: str
    workload_key: str
    rules_version: Ints
    sketch_id: Ints
    decisions: Ints
    offsets: NDArray[np.int64]
    latency_s: Floats
    final: NDArray[np.bool_]
    device: Ints
    devices: tuple[tuple[str, str], ...]
    calibration_s: Floats

    def __len__(self) -> int:
        return len(self.sketch_id)

    def rows(self, select: NDArray[np.intp], width: int) -> Ints:
        """The decision rows of some candidates that have ``width`` decisions each."""
        first = self.offsets[:-1][select]
        rows: Ints = self.decisions[first[:, None] + np.arange(width)]
        return rows

    @property
    def widths(self) -> NDArray[np.int64]:
        """Number of decisions of each candidate."""
        return np.diff(self.offsets)


@runtime_checkable
class TrialLog(History, Protocol):
    """A history that hands out measurements as arrays."""

    def trials(self, target: str, workload_keys: Collection[str]) -> Iterator[Trials]:
        """Those of some workloads on a target (its canonical text), in any order.

        Workloads without a measurement are left out.
        """


def trials_of(history: History, target: str, workload_keys: Collection[str]) -> Iterator[Trials]:
    """As `TrialLog.trials`, of any history."""
    if isinstance(history, TrialLog):
        yield from history.trials(target, workload_keys)
        return
    for key in workload_keys:
        trials = gathered(history.of(key, target), key, target)
        if len(trials):
            yield trials


def gathered(records: Sequence[Record], workload_key: str, target: str) -> Trials:
    """Records of one workload and target as arrays."""
    kept = [r for r in records if r.purpose in TEACHING and r.status != Status.worker_lost]
    names = sorted({(r.device_id, r.device) for r in kept})
    place = {name: i for i, name in enumerate(names)}
    speeds = [r.device_calibration_s if r.device_id else r.calibration_s for r in kept]
    offsets = np.zeros(len(kept) + 1, np.int64)
    np.cumsum([len(r.decisions) for r in kept], out=offsets[1:])
    return Trials(
        target,
        workload_key,
        np.array([r.rules_version for r in kept], np.int32),
        np.array([r.sketch_id for r in kept], np.int32),
        np.array([d for r in kept for d in r.decisions], np.int32),
        offsets,
        np.array(
            [r.latency_s if r.usable and r.latency_s else math.inf for r in kept], np.float64
        ),
        np.array([r.purpose == Purpose.final for r in kept], np.bool_),
        np.array([place[r.device_id, r.device] for r in kept], np.int32),
        tuple(names),
        np.array([math.nan if s is None else s for s in speeds], np.float64),
    )


@frozen(eq=False)
class OnDevice:
    """Trials whose latencies may be compared.

    Attributes:
        device: `device_id` or name; where devices of one id are not equally fast, a number, too.
        where: positions of the trials.
    """

    device: str
    where: NDArray[np.intp]


def by_device(trials: Trials, device: DeviceIdentity | None = None) -> list[OnDevice]:
    """Trials device by device; with a ``device``, those that were measured on it alone."""
    devices = []
    for number, (device_id, name) in enumerate(trials.devices):
        where = np.flatnonzero(trials.device == number)
        speed = trials.calibration_s[where]
        if device is not None:
            own = [device.matches(device_id, None if s != s else s, name) for s in speed.tolist()]
            where, speed = where[own], speed[own]
        for order, part in enumerate(_speeds(speed)):
            label = device_id or name
            devices.append(OnDevice(f"{label} {order + 1}" if order else label, where[part]))
    return [one for one in devices if len(one.where)]


def _speeds(calibration_s: Floats) -> list[NDArray[np.intp]]:
    """Positions by speed, where neighbouring ones differ by `SAME_SPEED` or more."""
    order = np.argsort(calibration_s, kind="stable")  # unknown ones come last
    speed = calibration_s[order]
    apart = ~(speed[1:] < SAME_SPEED * speed[:-1]) & ~(np.isnan(speed[1:]) & np.isnan(speed[:-1]))
    return [np.sort(part) for part in np.split(order, np.flatnonzero(apart) + 1)]
