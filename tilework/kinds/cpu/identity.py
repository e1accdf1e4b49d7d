"""This machine's CPU as records know it: facts that stay, and how fast it is at rest.

The speed is measured once and kept in `device.json`, beside `machine.json`, so that a machine is
the same device from start to start:

    {"format": "tilework-device-1", "calibrations": {"intel-...-1f0a": {"9c2b01ee": 0.00061}}}

The first name is the device's id, the second stands for one host, since hosts may share a home
folder. It is in this file and nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilework.kinds.cpu.parameters import default_path
from tilework.kinds.cpu.target import cache_sizes
from tilework.measure.host_speed import host_calibration_s
from tilework.target.host import processor_name
from tilework.target.identity import SAME_SPEED, DeviceIdentity, identity_of
from tilework.whole import write_whole

FORMAT = "tilework-device-1"

READINGS = 12
"""The least of so many calibrations, some time apart, is what the machine does at rest."""
PAUSE_S = 0.02
"""Time from one reading to the next, so that what disturbs one need not disturb all."""

HOSTS_KEPT = 64
"""Hosts of one kind that the file knows: containers have another name at every start."""

_CPUINFO = Path("/proc/cpuinfo")
_MAX_CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_MODEL = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part",
          "CPU variant", "CPU revision")  # fmt: skip


@lru_cache(maxsize=1)
def identity() -> DeviceIdentity:
    """This machine; found once in a process."""
    bare = DeviceIdentity(processor_name(), facts())
    return replace(bare, calibration_s=calibration_at_rest(bare.id))


def look_again() -> None:
    """Take this host for what it is now: where its speed at rest has changed, for another device.

    To be called when a user asks for it, on an idle machine.
    """
    calibration_at_rest(DeviceIdentity(processor_name(), facts()).id, again=True)
    identity.cache_clear()
    identity_of.cache_clear()


def facts() -> tuple[tuple[str, str], ...]:
    """What is known without measuring; nothing that load, time or a restart would change."""
    entries = _cpuinfo()
    first = entries[0] if entries else {}
    found = {name: first[name] for name in _MODEL if name in first}
    cores = {(e.get("physical id"), e.get("core id")) for e in entries}
    if cores and not any(None in pair for pair in cores):
        found["cores"] = str(len(cores))
    found["threads"] = str(os.cpu_count() or 1)
    for level, size in zip(("L1", "L2", "L3"), cache_sizes(), strict=True):
        found[level] = f"{size >> 10} KiB"
    memory = _memory_gib()
    if memory:
        found["memory"] = f"{memory} GiB"
    with contextlib.suppress(OSError, ValueError):
        found["clock"] = f"{int(_MAX_CLOCK.read_text()) // 1000} MHz"
    return tuple(found.items())


def _cpuinfo() -> list[dict[str, str]]:
    """What Linux says of every thread."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    entries = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        found = {name.strip(): value.strip() for name, colon, value in pairs if colon}
        if "processor" in found:
            entries.append(found)
    return entries


def _memory_gib() -> int:
    """The class of memory: GiB, to the next power of two; 0 where the system does not tell.

    What is reported is short of what is built in, by an amount that updates change.
    """
    try:
        nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
    return 2 ** max(0, round(math.log2(nbytes / 2**30))) if nbytes > 0 else 0


def calibration_at_rest(
    device: str,
    read: Callable[[], float] = host_calibration_s,
    path: Path | None = None,
    host: str = "",
    again: bool = False,
) -> float:
    """Seconds of `host_calibration_s` on this machine at rest, as they were first found.

    What was found stays, so that a busy day does not make another device of a machine; unless the
    machine now is plainly faster: then it was not at rest, or it is another one. A host that is
    not known takes over what an equal one found.

    Args:
        device: id of the device.
        read: takes a reading, in seconds.
        path: of the file; `device.json` in the user's cache folder if None.
        host: what this host is called; by default its name.
        again: take the machine for slower, too, if it plainly is.
    """
    where = path or default_path().with_name("device.json")
    token = hashlib.sha256((host or platform.node()).encode()).hexdigest()[:8]
    kept = _read(where).get(device, {})
    mine = kept.get(token)
    if mine is not None and not again and read() > mine / SAME_SPEED:
        return mine
    found = _at_rest(read)
    same = {t: s for t, s in kept.items() if 1 / SAME_SPEED < s / found < SAME_SPEED}
    if same:
        found = same.get(token) or min(same.values(), key=lambda s: abs(math.log(s / found)))
    with contextlib.suppress(OSError):  # then it is measured again next time
        _keep(where, device, token, found)
    return found


def _at_rest(read: Callable[[], float]) -> float:
    least = math.inf
    for number in range(READINGS):
        if number:
            time.sleep(PAUSE_S)
        least = min(least, read())
    return least


def _read(path: Path) -> dict[str, dict[str, float]]:
    """Seconds by device and host; what cannot be read is not there."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return {}
    devices = document.get("calibrations")
    if not isinstance(devices, dict):
        return {}
    return {
        device: {host: float(s) for host, s in hosts.items() if _is_time(s)}
        for device, hosts in devices.items()
        if isinstance(hosts, dict)
    }


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _keep(path: Path, device: str, host: str, seconds: float) -> None:
    """Add an entry to the file; others stay, but for hosts seen long ago."""
    devices = _read(path)
    hosts = devices.setdefault(device, {})
    hosts.pop(host, None)
    hosts[host] = seconds
    for oldest in list(hosts)[:-HOSTS_KEPT]:
        del hosts[oldest]
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, "calibrations": devices}
    write_whole(path, json.dumps(document, indent=1).encode())
