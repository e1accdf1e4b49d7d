"""Measured numbers of machines, kept in a file of the user's cache folder.

`tilework doctor` measures them (`tilework.kinds.cpu.calibrate`) and writes them; `Machine.of`
reads them. The file is `$XDG_CACHE_HOME/tilework/machine.json`, by default below `~/.cache`. It is
plain JSON, one entry for each CPU and kind of code:

    {"format": "tilework-machine-1",
     "machines": {"AMD EPYC / znver4": {"clock_hz": 3.7e9, ..., "threads": {"1": {...}}}}}

Where there is no entry, or none that can be used, the table in `tilework.kinds.cpu.machine`
serves. Nothing is ever measured implicitly: predictions depend on this file and on nothing else.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilework.frozen import frozen
from tilework.kinds.cpu.target import CpuTarget
from tilework.target.host import processor_name
from tilework.whole import write_whole

FORMAT = "tilework-machine-1"


@frozen
class Shared:
    """Numbers that depend on how many threads run.

    Attributes:
        l3_rate, memory_rate: bytes per cycle that L3 and memory deliver to each thread.
        fork_cycles: cost of starting and joining a parallel region.
    """

    l3_rate: float
    memory_rate: float
    fork_cycles: float


@frozen
class Parameters:
    """What was measured on one machine; units as in `tilework.kinds.cpu.machine.Machine`.

    Attributes:
        threads: by number of threads.
        measured_at: UTC time in ISO format.
    """

    clock_hz: float
    fma_ports: float
    load_ports: float
    broadcast_ports: float
    latency: float
    l2_rate: float
    threads: dict[int, Shared] = field(hash=False)
    measured_at: str = ""

    def shared(self, num_threads: int) -> Shared:
        """The numbers of the nearest number of threads that was measured."""
        return self.threads[min(self.threads, key=lambda n: (abs(n - num_threads), n))]


def default_path() -> Path:
    """The file in the user's cache folder."""
    return _below(os.environ.get("XDG_CACHE_HOME") or "~/.cache", os.environ.get("HOME"))


@lru_cache(maxsize=8)
def _below(base: str, home: str | None) -> Path:
    """The file in a cache folder; ``home`` is what its name may begin with."""
    return Path(base).expanduser() / "tilework" / "machine.json"


def machine_key(target: CpuTarget) -> str:
    """Name of the entry for a target: this machine's processor and the kind of code."""
    mattr = f" {target.mattr}" if target.mattr else ""
    return f"{processor_name()} / {target.mcpu}{mattr}"


def measured(target: CpuTarget, path: Path | None = None) -> Parameters | None:
    """The entry for a target on this machine, or None where there is none that can be used."""
    return _entries(str(path or default_path())).get(machine_key(target))


@lru_cache(maxsize=8)
def _entries(path: str) -> dict[str, Parameters]:
    """The entries of a file, read once per process: predictions do not change during a run."""
    entries = {}
    for key, values in read_entries(Path(path), FORMAT, "machines").items():
        entry = _parse(values)
        if entry is not None:
            entries[key] = entry
    return entries


def read_entries(path: Path, form: str, name: str) -> dict[str, Any]:
    """What a file of this folder holds under a name; what cannot be read is not there."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("format") != form:
        return {}
    entries = document.get(name)
    return entries if isinstance(entries, dict) else {}


def write_entries(path: Path, form: str, name: str, entries: dict[str, Any]) -> None:
    """Write what `read_entries` reads, in one step: others see all of it or nothing.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"format": form, name: entries}, indent=1).encode())


def _parse(values: Any) -> Parameters | None:
    try:
        numbers = {
            f.name: _positive(values[f.name])
            for f in fields(Parameters)
            if f.name not in ("threads", "measured_at")
        }
        threads = {
            int(n): Shared(**{f.name: _positive(row[f.name]) for f in fields(Shared)})
            for n, row in values["threads"].items()
        }
        if not threads:
            return None
        return Parameters(**numbers, threads=threads, measured_at=str(values["measured_at"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _positive(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{value} is not a positive number")
    return number


def save(target: CpuTarget, entry: Parameters, path: Path | None = None) -> Path:
    """Keep the entry of a target on this machine; other entries stay. Returns the file.

    Raises:
        OSError: the file cannot be written.
    """
    where = path or default_path()
    machines = read_entries(where, FORMAT, "machines")
    machines[machine_key(target)] = asdict(entry)
    write_entries(where, FORMAT, "machines", machines)
    _entries.cache_clear()
    return where
