"""CUDA's runtime and driver as CuPy hands them on, and the device of this process.

Only CuPy's lowest layer is used, which takes and gives whole numbers: no arrays, no memory pools,
no streams of its own, and nothing that happens when objects are collected.
"""

from __future__ import annotations

import threading
from typing import Any

from tilework.errors import DeviceLost
from tilework.kinds.cuda.drivers.errors import device_error

# numbers of cudaDeviceAttr
_MAJOR, _MINOR = 75, 76


class CupyCalls:
    """The functions, called in threads that have the first device of an architecture.

    Args:
        arch: such as ``sm_80``.

    Raises:
        DeviceLost: CuPy is not installed, there is no driver, or no such device to be had.
    """

    def __init__(self, arch: str) -> None:
        try:
            from cupy_backends.cuda.api import driver, runtime
        except ImportError as e:
            raise DeviceLost(
                f"running on a GPU needs CuPy ({e}): pip install 'tilework[cuda13]', or "
                "tilework[cuda12] for drivers before 580"
            ) from e
        self.driver, self.runtime = driver, runtime
        self._errors = (runtime.CUDARuntimeError, driver.CUDADriverError)
        self._ready = threading.local()
        self.arch = arch
        self.number = self._find(arch)

    def call(self, doing: str, function: Any, *args: Any) -> Any:
        """A call of CUDA in a thread that has the device."""
        if not getattr(self._ready, "yes", False):
            self._checked("opening the device", self.runtime.setDevice, self.number)
            self._checked("opening the device", self.runtime.free, 0)  # makes the context
            self._ready.yes = True
        return self._checked(doing, function, *args)

    def attribute(self, which: int) -> int:
        """A fact of the device, by its number in cudaDeviceAttr."""
        doing = "asking for the device"
        return int(self.call(doing, self.runtime.deviceGetAttribute, which, self.number))

    def _find(self, arch: str) -> int:
        """The number of the first device of an architecture."""
        count = int(self._checked("looking for devices", self.runtime.getDeviceCount))
        archs = [self._arch(number) for number in range(count)]
        if arch not in archs:
            here = ", ".join(archs) or "none"
            raise DeviceLost(f"there is no CUDA device of {arch}; here: {here}")
        return archs.index(arch)

    def _arch(self, number: int) -> str:
        ask, doing = self.runtime.deviceGetAttribute, "asking for the device"
        major = self._checked(doing, ask, _MAJOR, number)
        return f"sm_{major}{self._checked(doing, ask, _MINOR, number)}"

    def _checked(self, doing: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except self._errors as e:
            raise device_error(int(e.status), str(e), doing) from e
        except RuntimeError as e:  # CuPy's own: the driver's library cannot be loaded
            raise DeviceLost(f"{doing}: {e}") from e
