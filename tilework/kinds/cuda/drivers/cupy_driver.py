"""A real GPU through CuPy's bindings of the CUDA runtime and driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from tilework.errors import LaunchError
from tilework.kinds.cuda.drivers.code_check import check_cubin
from tilework.kinds.cuda.drivers.cupy_calls import CupyCalls
from tilework.kinds.cuda.drivers.cupy_parts import CupyEvents, CupyMemory, CupyStreams
from tilework.kinds.cuda.drivers.driver import Code, DeviceFacts, Driver
from tilework.overriding import override

# numbers of cudaDeviceAttr
_CLOCK_KHZ, _SMS, _MEMORY_KHZ, _BUS_BITS, _L2, _SHARED_OPTIN = 13, 16, 36, 37, 38, 97


class CupyDriver(Driver):
    """The first device of an architecture.

    Args:
        arch: such as ``sm_80``.

    Raises:
        DeviceLost: CuPy is not installed, there is no driver, or no such device to be had.
    """

    def __init__(self, arch: str) -> None:
        self._cuda = CupyCalls(arch)
        self.streams = CupyStreams(self._cuda)
        self.memory = CupyMemory(self._cuda, self.streams)
        self.events = CupyEvents(self._cuda)

    @override
    def facts(self) -> DeviceFacts:
        ask, fact = self._cuda.runtime.getDeviceProperties, self._cuda.attribute
        properties = self._cuda.call("asking for the device", ask, self._cuda.number)
        name = properties["name"]
        return DeviceFacts(
            name=name.decode(errors="replace") if isinstance(name, bytes) else str(name),
            arch=self._cuda.arch,
            sms=fact(_SMS),
            ghz=fact(_CLOCK_KHZ) / 1e6,
            dram_bytes_per_s=2e3 * fact(_MEMORY_KHZ) * fact(_BUS_BITS) / 8,
            l2_bytes=fact(_L2),
            memory_bytes=self.memory.available()[1],
            shared_per_block=fact(_SHARED_OPTIN),
        )

    @override
    def load(self, code: Mapping[str, bytes]) -> CupyCode:
        return CupyCode(self._cuda, code)

    @override
    def allow_shared(self, function: int, nbytes: int) -> None:
        which = self._cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        doing = f"allowing {nbytes} bytes of shared memory"
        self._cuda.call(doing, self._cuda.driver.funcSetAttribute, function, which, nbytes)

    @override
    def launch(
        self,
        function: int,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        # CUDA copies the parameters at once
        values = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        first, size = ctypes.addressof(values), ctypes.sizeof(ctypes.c_void_p)
        places = (ctypes.c_void_p * max(len(pointers), 1))(
            *(first + i * size for i in range(len(pointers)))
        )
        self._cuda.call(
            f"launching {grid} blocks of {block} threads", self._cuda.driver.launchKernel,
            function, grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(places), 0,
        )  # fmt: skip


class CupyCode(Code):
    """Cubins in the device's memory."""

    def __init__(self, cuda: CupyCalls, code: Mapping[str, bytes]) -> None:
        self._owner = cuda
        self._modules: list[int] = []
        self._functions: dict[str, int] = {}
        load, get = cuda.driver.moduleLoadData, cuda.driver.moduleGetFunction
        for entry, cubin in code.items():
            check_cubin(entry, cubin, cuda.arch)
            module = cuda.call(f"loading {entry}", load, cubin)
            self._modules.append(module)
            function = cuda.call(f"finding {entry}", get, module, entry)
            # Asking for anything loads it now: a driver that is lazy must not do so in a capture.
            registers = cuda.driver.CU_FUNC_ATTRIBUTE_NUM_REGS
            cuda.call(f"loading {entry}", cuda.driver.funcGetAttribute, registers, function)
            self._functions[entry] = function

    @override
    def function(self, entry: str) -> int:
        if entry not in self._functions:
            raise LaunchError(f"there is no function {entry}")
        return self._functions[entry]

    def __del__(self) -> None:
        unload = self._owner.driver.moduleUnload
        for module in self._modules:
            try:
                unload(module)
            except Exception:  # the device is broken, or the process ends: all is lost anyway
                return
