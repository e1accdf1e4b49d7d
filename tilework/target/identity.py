"""Which device a latency was measured on: what decides whether it may be compared with another.

Two machines whose code is the same (one `-mcpu`) need not be equally fast. A latency is worth
something on its own device only; on any other the record is a hint: a candidate to try, never a
latency to beat.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property, lru_cache
from typing import Any

from tilework import kinds
from tilework.frozen import frozen
from tilework.target.base import Target

SAME_SPEED = 1.25
"""Devices with equal facts whose calibrations differ by less than this factor are the same.

The calibration of one machine at rest moves by a few percent from day to day; machines that differ
by less than this rank schedules alike.
"""


@frozen
class DeviceIdentity:
    """A device as records know it. The host's name is no part of it: equal machines are equal.

    Attributes:
        name: as its maker writes it, such as ``AMD EPYC 9B14``.
        facts: what is known without measuring, such as cores, caches, the class of memory and
            clocks, in a fixed order; what changes from start to start must not be here.
        calibration_s: seconds that the kind's fixed piece of work takes at rest
            (`tilework.measure.device.Device.calibration_s`); None where the facts say enough, or
            speed says nothing.
        timed: whether latencies are taken from a clock, so that whatever else the device does
            disturbs them; not where they are counted or invented.
    """

    name: str
    facts: tuple[tuple[str, str], ...] = ()
    calibration_s: float | None = None
    timed: bool = True

    @cached_property
    def id(self) -> str:
        """Text for columns, run ids and file names: a readable part and a hash of the facts."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:32].strip("-")
        text = json.dumps([self.name, *self.facts])
        return f"{slug or 'device'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def owns(self, record: Any) -> bool:
        """Whether a record (`tilework.record.Record`) was measured on this device."""
        calibration = record.device_calibration_s if record.device_id else record.calibration_s
        return self.matches(record.device_id, calibration, record.device)

    def matches(self, device_id: str, calibration_s: float | None, name: str = "") -> bool:
        """Whether a record with these columns was measured on this device.

        Records from before devices had an id (`device_id` empty) are told by the device's name
        and by the calibration of their own batch.
        """
        if device_id != self.id and (device_id or name != self.name):
            return False
        if calibration_s is None or self.calibration_s is None:
            return True
        return 1 / SAME_SPEED < calibration_s / self.calibration_s < SAME_SPEED


@lru_cache(maxsize=64)
def identity_of(target: Target) -> DeviceIdentity:
    """The device of this machine that a target's kernels are measured on; found once a process.

    A machine that is asked for the first time is calibrated, which takes part of a second. Where
    the target is another machine's, it is what would measure it: see `device_here`.
    """
    identity: DeviceIdentity = (
        kinds.room(target.kind, "device").for_target(target).identity(target)
    )
    return identity


def device_here(target: Target) -> DeviceIdentity | None:
    """As `identity_of`; None for a target whose programs cannot run on this machine."""
    return None if target.missing_on_host() else identity_of(target)
