"""Pieces of a device's memory."""

from __future__ import annotations

import contextlib

from tilework.kinds.cuda.drivers.driver import Driver


class Memory:
    """A piece of a device's memory, given back when nobody holds it any more."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver = driver
        self.address = driver.memory.allocate(nbytes)
        self.nbytes = nbytes

    def __del__(self) -> None:
        if hasattr(self, "address"):
            with contextlib.suppress(Exception):  # the device is broken, or the process ends
                self._driver.memory.free(self.address)
