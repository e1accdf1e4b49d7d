"""A GPU that is this machine's processor: a driver over the fibre shim.

Its code is the text of kernels. The threads of a kernel run in ascending and in descending order
by turns, so that a result which depends on the order shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.errors import DeviceError, DeviceLost, LaunchError, TargetError
from tilework.kinds.cuda.drivers.host_driver import HostDriver
from tilework.kinds.cuda.emulate.compile import compile_text, compiler
from tilework.kinds.cuda.emulate.run import Emulated, EmulationError
from tilework.kinds.cuda.target import CudaTarget


class EmulatedDriver(HostDriver):
    """The device that a target describes, on this processor.

    Raises:
        DeviceLost: there is no C++ compiler.
    """

    def __init__(self, target: CudaTarget) -> None:
        super().__init__(target)
        try:
            compiler()
        except TargetError as e:
            raise DeviceLost(str(e)) from e

    def functions_of(self, code: Mapping[str, bytes]) -> Mapping[str, EmulatedFunction]:
        """All texts become one library.

        Raises:
            LaunchError: the C++ compiler does not take them.
        """
        if not code:
            return {}
        try:
            library = Emulated(compile_text([(entry, t.decode()) for entry, t in code.items()]))
        except UnicodeDecodeError as e:
            raise LaunchError(f"the code of {', '.join(code)} is no text ({e})") from e
        except (TargetError, OSError) as e:
            raise LaunchError(str(e)) from e
        return {entry: EmulatedFunction(library, entry) for entry in code}


class EmulatedFunction:
    """A kernel of a library: `tilework.kinds.cuda.drivers.host_driver.HostFunction`."""

    def __init__(self, library: Emulated, entry: str) -> None:
        self.entry = entry
        self._library = library
        self._order = 1

    def run(self, grid: int, block: int, shared: int, pointers: Sequence[int]) -> None:
        """Run it in the order that it was not run in before."""
        self._order ^= 1
        try:
            self._library.launch(self.entry, grid, block, shared, pointers, self._order)
        except EmulationError as e:
            raise DeviceError(str(e)) from e
