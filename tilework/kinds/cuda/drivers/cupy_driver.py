"""A real GPU through CuPy's bindings of the CUDA runtime and driver.

Only CuPy's lowest layer is used, which takes and gives whole numbers: no arrays, no memory pools,
no streams of its own, and nothing that happens when objects are collected.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tilework.errors import DeviceError, DeviceLost, LaunchError
from tilework.kinds.cuda.drivers.code_check import check_cubin
from tilework.kinds.cuda.drivers.driver import Code, DeviceFacts, Driver
from tilework.kinds.cuda.drivers.errors import OUT_OF_MEMORY, device_error, no_memory_text
from tilework.overriding import override

# numbers of cudaDeviceAttr
_CLOCK_KHZ, _SMS, _MEMORY_KHZ, _BUS_BITS, _L2, _MAJOR, _MINOR = 13, 16, 36, 37, 38, 75, 76
_SHARED_OPTIN = 97


class CupyDriver(Driver):
    """The first device of an architecture.

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
        self._driver, self._runtime = driver, runtime
        self._errors = (runtime.CUDARuntimeError, driver.CUDADriverError)
        self._ready = threading.local()
        self.arch = arch
        self._number = self._find(arch)

    @override
    def facts(self) -> DeviceFacts:
        ask = self._runtime.getDeviceProperties
        properties = self._call("asking for the device", ask, self._number)
        name = properties["name"]
        return DeviceFacts(
            name=name.decode(errors="replace") if isinstance(name, bytes) else str(name),
            arch=self.arch,
            sms=self._attribute(_SMS),
            ghz=self._attribute(_CLOCK_KHZ) / 1e6,
            dram_bytes_per_s=2e3 * self._attribute(_MEMORY_KHZ) * self._attribute(_BUS_BITS) / 8,
            l2_bytes=self._attribute(_L2),
            memory_bytes=self.memory()[1],
            shared_per_block=self._attribute(_SHARED_OPTIN),
        )

    @override
    def memory(self) -> tuple[int, int]:
        free, total = self._call("asking for memory", self._runtime.memGetInfo)
        return int(free), int(total)

    @override
    def allocate(self, nbytes: int) -> int:
        try:
            return int(self._call("allocating", self._runtime.malloc, max(nbytes, 1)))
        except DeviceError as e:
            if getattr(e.__cause__, "status", 0) != OUT_OF_MEMORY:
                raise
            free, total = self.memory()
            raise DeviceError(no_memory_text(nbytes, free, total)) from e

    @override
    def free(self, address: int) -> None:
        self._call("freeing memory", self._runtime.free, address)

    @override
    def write(self, address: int, array: NDArray[Any], stream: int) -> None:
        kind = self._runtime.memcpyHostToDevice
        self._copy(address, array.ctypes.data, array.nbytes, kind, stream)
        # From memory that may be moved CUDA copies before it returns; of other memory, wait.
        self.synchronize(stream)

    @override
    def read(self, array: NDArray[Any], address: int, stream: int) -> None:
        kind = self._runtime.memcpyDeviceToHost
        self._copy(array.ctypes.data, address, array.nbytes, kind, stream)
        self.synchronize(stream)

    @override
    def copy(self, to: int, start: int, nbytes: int, stream: int) -> None:
        self._copy(to, start, nbytes, self._runtime.memcpyDeviceToDevice, stream)

    @override
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        if nbytes:
            self._call("filling", self._runtime.memsetAsync, address, byte, nbytes, stream)

    @override
    def load(self, code: Mapping[str, bytes]) -> CupyCode:
        return CupyCode(self, code)

    @override
    def allow_shared(self, function: int, nbytes: int) -> None:
        which = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        doing = f"allowing {nbytes} bytes of shared memory"
        self._call(doing, self._driver.funcSetAttribute, function, which, nbytes)

    def launch(
        self,
        function: int,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        """See `tilework.kinds.cuda.drivers.driver.Driver`; CUDA copies the parameters at once."""
        values = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        first, size = ctypes.addressof(values), ctypes.sizeof(ctypes.c_void_p)
        places = (ctypes.c_void_p * max(len(pointers), 1))(
            *(first + i * size for i in range(len(pointers)))
        )
        self._call(
            f"launching {grid} blocks of {block} threads", self._driver.launchKernel,
            function, grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(places), 0,
        )  # fmt: skip

    @override
    def stream(self) -> int:
        flag = self._runtime.streamNonBlocking  # others cannot be captured beside the default one
        return int(self._call("making a stream", self._runtime.streamCreateWithFlags, flag))

    @override
    def drop_stream(self, stream: int) -> None:
        self._call("dropping a stream", self._runtime.streamDestroy, stream)

    @override
    def after_others(self, stream: int) -> None:
        mark = self._call("marking the default stream", self._event_without_time)
        try:
            legacy = self._runtime.streamLegacy
            self._call("marking the default stream", self._runtime.eventRecord, mark, legacy)
            self._call("joining streams", self._runtime.streamWaitEvent, stream, mark)
        finally:
            self.drop_event(mark)

    @override
    def synchronize(self, stream: int) -> None:
        self._call("running", self._runtime.streamSynchronize, stream)

    @override
    def begin_capture(self, stream: int) -> None:
        mode = self._runtime.streamCaptureModeThreadLocal
        self._call("beginning a graph", self._runtime.streamBeginCapture, stream, mode)

    @override
    def end_capture(self, stream: int) -> int:
        graph = self._call("ending a graph", self._runtime.streamEndCapture, stream)
        try:
            ready = self._call("making a graph ready", self._runtime.graphInstantiate, graph)
        finally:
            self._call("dropping a graph", self._runtime.graphDestroy, graph)
        self._call("bringing a graph", self._runtime.graphUpload, ready, stream)
        return int(ready)

    @override
    def replay(self, graph: int, stream: int) -> None:
        self._call("launching a graph", self._runtime.graphLaunch, graph, stream)

    @override
    def drop_graph(self, graph: int) -> None:
        self._call("dropping a graph", self._runtime.graphExecDestroy, graph)

    @override
    def event(self) -> int:
        return int(self._call("making an event", self._runtime.eventCreate))

    @override
    def record(self, event: int, stream: int) -> None:
        self._call("recording an event", self._runtime.eventRecord, event, stream)

    @override
    def elapsed_s(self, first: int, last: int) -> float:
        return 1e-3 * float(
            self._call("reading the time", self._runtime.eventElapsedTime, first, last)
        )

    @override
    def drop_event(self, event: int) -> None:
        self._call("dropping an event", self._runtime.eventDestroy, event)

    def _find(self, arch: str) -> int:
        """The number of the first device of an architecture."""
        count = int(self._checked("looking for devices", self._runtime.getDeviceCount))
        found = [self._arch(number) for number in range(count)]
        if arch not in found:
            here = ", ".join(found) or "none"
            raise DeviceLost(f"there is no CUDA device of {arch}; here: {here}")
        return found.index(arch)

    def _arch(self, number: int) -> str:
        ask, doing = self._runtime.deviceGetAttribute, "asking for the device"
        major = self._checked(doing, ask, _MAJOR, number)
        return f"sm_{major}{self._checked(doing, ask, _MINOR, number)}"

    def _attribute(self, which: int) -> int:
        doing = "asking for the device"
        return int(self._call(doing, self._runtime.deviceGetAttribute, which, self._number))

    def _event_without_time(self) -> int:
        made = self._runtime.eventCreateWithFlags(self._runtime.eventDisableTiming)
        return int(made)

    def _copy(self, to: int, start: int, nbytes: int, kind: int, stream: int) -> None:
        if nbytes:
            self._call("copying", self._runtime.memcpyAsync, to, start, nbytes, kind, stream)

    def _call(self, doing: str, function: Any, *args: Any) -> Any:
        """A call of CUDA in a thread that has the device."""
        if not getattr(self._ready, "yes", False):
            self._checked("opening the device", self._runtime.setDevice, self._number)
            self._checked("opening the device", self._runtime.free, 0)  # makes the context
            self._ready.yes = True
        return self._checked(doing, function, *args)

    def _checked(self, doing: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except self._errors as e:
            raise device_error(int(e.status), str(e), doing) from e
        except RuntimeError as e:  # CuPy's own: the driver's library cannot be loaded
            raise DeviceLost(f"{doing}: {e}") from e


class CupyCode(Code):
    """Cubins in the device's memory."""

    def __init__(self, driver: CupyDriver, code: Mapping[str, bytes]) -> None:
        self._owner = driver
        self._modules: list[int] = []
        self._functions: dict[str, int] = {}
        load, get = driver._driver.moduleLoadData, driver._driver.moduleGetFunction
        for entry, cubin in code.items():
            check_cubin(entry, cubin, driver.arch)
            module = driver._call(f"loading {entry}", load, cubin)
            self._modules.append(module)
            function = driver._call(f"finding {entry}", get, module, entry)
            # Asking for anything loads it now: a driver that is lazy must not do so in a capture.
            registers = driver._driver.CU_FUNC_ATTRIBUTE_NUM_REGS
            driver._call(f"loading {entry}", driver._driver.funcGetAttribute, registers, function)
            self._functions[entry] = function

    @override
    def function(self, entry: str) -> int:
        if entry not in self._functions:
            raise LaunchError(f"there is no function {entry}")
        return self._functions[entry]

    def __del__(self) -> None:
        unload = self._owner._driver.moduleUnload
        for module in self._modules:
            try:
                unload(module)
            except Exception:  # the device is broken, or the process ends: all is lost anyway
                return
