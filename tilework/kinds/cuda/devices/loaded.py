"""A kernel's functions on a device, ready to launch: `tilework.measure.device.Loaded`."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.dtypes import numpy_dtype
from tilework.errors import LaunchError, ModuleError
from tilework.index.extents import known
from tilework.kinds.cuda.devices.buffer import CudaBuffer
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.program import Launcher
from tilework.kinds.cuda.drivers.stream import Stream
from tilework.kinds.cuda.launches import LaunchFormatError, launches_from_json
from tilework.lower.kernel import Kernel
from tilework.measure.device import Loaded
from tilework.overriding import override


class LoadedLaunches(Loaded):
    """Functions of one kernel.

    Raises:
        LaunchError: its code or its launches are damaged, or nothing for this device.
    """

    def __init__(self, driver: Driver, stream: Stream, kernel: Kernel) -> None:
        self._stream, self._args = stream, kernel.args
        self._need = kernel.workspace_bytes(1)
        objects = dict(kernel.objects)
        try:
            launches = launches_from_json(objects.pop(kernel.symbol, b""))
        except LaunchFormatError as e:
            raise LaunchError(f"the launches of {kernel.symbol} are damaged: {e}") from e
        code = {launch.entry: objects.get(launch.entry, b"") for launch in launches}
        self._launcher = Launcher(driver, driver.load(code), launches)
        self._launcher.check(kernel.symbol, len(kernel.args), known(self._need))

    @override
    def bind(
        self, arguments: Sequence[CudaBuffer], workspace: CudaBuffer, threads: int
    ) -> BoundLaunches:
        for buffer, arg in zip(arguments, self._args, strict=True):
            if buffer.shape != arg.shape or numpy_dtype(buffer.dtype) != numpy_dtype(arg.dtype):
                raise ModuleError(
                    f"argument {arg.name}: expected {arg.dtype}{list(arg.shape)}, got "
                    f"{buffer.dtype}{list(buffer.shape)}"
                )
        if workspace.nbytes < self._need:
            raise ModuleError(f"the kernel needs {self._need} bytes of workspace")
        return BoundLaunches(self._launcher, self._stream, list(arguments), workspace)


class BoundLaunches:
    """A kernel with fixed arguments."""

    def __init__(
        self,
        launcher: Launcher,
        stream: Stream,
        arguments: Sequence[CudaBuffer],
        workspace: CudaBuffer,
    ) -> None:
        self._keep = (list(arguments), workspace)
        self._launcher, self._stream = launcher, stream
        self._steps = launcher.resolved([b.address for b in arguments], workspace.address)

    def __call__(self) -> None:
        """Run once, or add one run to the graph that is being made."""
        self._launcher.start(self._steps, self._stream.number)
        if self._stream.waits:
            self._stream.driver.streams.synchronize(self._stream.number)
