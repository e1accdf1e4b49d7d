"""What the benchmarks of GPUs share: arguments, the first line, a driver to time with, results."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import tilework as tw
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.target.runs import caveat

_PACKAGES = ("tilework", "numpy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "torch")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has; ``description`` is a module's text."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument(
        "--target", default="cuda", help="default: the device here; 'cuda -model=a100 -run=...'"
    )
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="tiny sizes on the emulated or simulated device, to see that the script runs",
    )
    return parser


def begin(text: str, dry: bool, dry_target: str) -> tw.Target:
    """The target, named in a first line that says what its numbers are worth.

    Args:
        text: from ``--target``.
        dry: ``dry_target`` replaces it.
        dry_target: a target for machines without a device.
    """
    try:
        target = tw.Target(dry_target if dry else text)
    except tw.TileworkError as error:
        sys.exit(f"error: {error}")
    said = caveat(str(target))
    print(f"{target}: {said}" if said else f"{target}", flush=True)
    return target


def open_driver(target: Any) -> Driver:
    """The device of a target, or the emulated one."""
    try:
        if target.run == "device":
            from tilework.kinds.cuda.drivers.cupy_driver import CupyDriver

            return CupyDriver(target.arch)
        from tilework.kinds.cuda.drivers.emulated_driver import EmulatedDriver

        return EmulatedDriver(target)
    except tw.TileworkError as error:
        sys.exit(f"error: {error}")


def machine_code(target: Any, entry: str, text: str) -> bytes:
    """What the target's driver loads for a kernel's text."""
    if target.run == "emulated":
        return text.encode()
    from tilework.kinds.cuda.source.nvrtc import cubin

    return cubin(text, target.arch, entry)


class Timer:
    """Times work on a stream: replays of a graph of so many launches, between two events."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.stream = driver.streams.make()
        self._first, self._last = driver.events.make(), driver.events.make()

    def seconds(self, launch: Callable[[int], None], launches: int, samples: int) -> float:
        """Median seconds of one launch.

        Args:
            launch: starts it on a stream.
            launches: in the graph, so that the gap between graphs does not count.
            samples: replays that are timed; one comes before.
        """
        self.driver.streams.begin_capture(self.stream)
        for _ in range(launches):
            launch(self.stream)
        graph = self.driver.streams.end_capture(self.stream)
        found = self._sampled(lambda: self.driver.streams.replay(graph, self.stream), samples)
        self.driver.streams.drop_graph(graph)
        return found / launches

    def without_graph(self, launch: Callable[[int], None], launches: int, samples: int) -> float:
        """Median seconds of one launch of many that are given to the stream one by one."""

        def all_of_them() -> None:
            for _ in range(launches):
                launch(self.stream)

        return self._sampled(all_of_them, samples) / launches

    def _sampled(self, work: Callable[[], None], samples: int) -> float:
        work()
        self.driver.streams.synchronize(self.stream)
        out = []
        for _ in range(samples):
            self.driver.events.record(self._first, self.stream)
            work()
            self.driver.events.record(self._last, self.stream)
            self.driver.streams.synchronize(self.stream)
            out.append(self.driver.events.elapsed_s(self._first, self._last))
        return float(np.median(out))


@contextlib.contextmanager
def memory(driver: Driver, nbytes: int) -> Iterator[int]:
    """The address of memory that is given back."""
    address = driver.memory.allocate(nbytes)
    try:
        yield address
    finally:
        driver.memory.free(address)


def finish(path: Path | None, target: Any, results: dict[str, Any]) -> None:
    """Write what was found to a file, if one was named."""
    if path is None:
        return
    document = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "target": str(target),
        "run": target.run,
        "packages": {name: _version(name) for name in _PACKAGES},
        **results,
    }
    path.write_text(json.dumps(document, indent=1, default=str))
    print(f"written: {path}")


def _version(name: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return None
