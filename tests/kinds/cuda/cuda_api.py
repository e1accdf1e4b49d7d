"""CUDA's runtime and driver as CuPy hands them on, made up over the emulation.

Whoever calls a function is held to the parameters that CuPy's own documents for it, where CuPy is
installed. The machine code of a cubin is its kernel's text.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import struct
import sys
from types import ModuleType
from typing import Any

from tilework.kinds.cuda.drivers.emulated_driver import EmulatedDriver
from tilework.kinds.cuda.source.elf import read_cubin
from tilework.kinds.cuda.target import CudaTarget

_ENTRY = re.compile(rb"__launch_bounds__\([^)]*\) (\w+)\(")


class CudaError(RuntimeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def cubin(text: str, arch: int = 80) -> bytes:
    """An ELF file that says it is a cubin; its function's machine code is the kernel's text."""
    (entry,) = _ENTRY.findall(text.encode())
    names = b"\0.shstrtab\0.text." + entry + b"\0"
    code = text.encode()
    table = 64 + len(names) + len(code)
    rows = [(0,) * 10, (1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)]
    rows += [(11, 1, 6, 0, 64 + len(names), len(code), 0, 0, 1, 0)]
    head = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 51, 7, 2, 190, 1, 0, 0, table, arch, 64, 0,
        0, 64, len(rows), 1,
    )  # fmt: skip
    return head + names + code + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)


class FakeCuda:
    """One device. `errors`: by function name, the error number that its next call raises."""

    def __init__(self, target: CudaTarget) -> None:
        self.host = EmulatedDriver(target)
        self.errors: dict[str, int] = {}
        self.calls: list[str] = []
        self._modules: dict[int, Any] = {}
        self._graphs: dict[int, int] = {}

    def install(self, monkeypatch: Any) -> FakeCuda:
        """What `import cupy_backends.cuda.api` finds from now on."""
        runtime = self._module("runtime", _RUNTIME, _RUNTIME_NUMBERS)
        driver = self._module("driver", _DRIVER, _DRIVER_NUMBERS)
        runtime.CUDARuntimeError = driver.CUDADriverError = CudaError
        api = ModuleType("cupy_backends.cuda.api")
        api.runtime, api.driver = runtime, driver
        for name in ("cupy_backends", "cupy_backends.cuda"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", api)
        return self

    def _module(self, name: str, functions: str, numbers: dict[str, int]) -> Any:
        module = ModuleType(name)
        vars(module).update(numbers)
        for function in functions.split():
            setattr(module, function, self._checked(name, function))
        return module

    def _checked(self, module: str, name: str) -> Any:
        count = _parameters(module, name)
        body = getattr(self, f"_{name}")

        def call(*args: Any) -> Any:
            assert count is None or count[0] <= len(args) <= count[1], f"{name}{args}"
            self.calls.append(name)
            if name in self.errors:
                raise CudaError(self.errors.pop(name), f"error of {name}")
            return body(*args)

        return call

    # --- runtime -----------------------------------------------------------------------------

    def _getDeviceCount(self):
        return 1

    def _setDevice(self, device):
        assert device == 0

    def _deviceGetAttribute(self, which, device):
        facts = self.host.facts()
        major, minor = divmod(int(facts.arch[3:]), 10)
        return {
            75: major, 76: minor, 16: facts.sms, 13: round(facts.ghz * 1e6), 36: 1_215_000,
            37: 5120, 38: facts.l2_bytes, 97: facts.shared_per_block,
        }[which]  # fmt: skip

    def _getDeviceProperties(self, device):
        return {"name": self.host.facts().name.encode()}

    def _memGetInfo(self):
        return self.host.memory.available()

    def _malloc(self, size):
        return self.host.memory.allocate(size)

    def _free(self, address):
        if address:
            self.host.memory.free(address)

    def _memsetAsync(self, address, value, size, stream):
        self.host.memory.fill(address, value, size, stream)

    def _memcpyAsync(self, to, start, size, kind, stream):
        assert kind in (1, 2, 3)
        self.host.memory.copy(to, start, size, stream)

    def _streamCreateWithFlags(self, flags):
        assert flags == 1
        return self.host.streams.make()

    def _streamDestroy(self, stream):
        pass

    def _streamSynchronize(self, stream):
        pass

    def _streamWaitEvent(self, stream, event, flags=0):
        pass

    def _streamBeginCapture(self, stream, mode):
        self.host.streams.begin_capture(stream)

    def _streamEndCapture(self, stream):
        return self.host.streams.end_capture(stream)

    def _graphInstantiate(self, graph):
        self._graphs[graph + 10**6] = graph
        return graph + 10**6

    def _graphDestroy(self, graph):
        pass

    def _graphExecDestroy(self, graph):
        self.host.streams.drop_graph(self._graphs.pop(graph))

    def _graphUpload(self, graph, stream):
        assert graph in self._graphs

    def _graphLaunch(self, graph, stream):
        self.host.streams.replay(self._graphs[graph], stream)

    def _eventCreate(self):
        return self.host.events.make()

    def _eventCreateWithFlags(self, flags):
        return self.host.events.make()

    def _eventRecord(self, event, stream):
        self.host.events.record(event, stream)

    def _eventDestroy(self, event):
        self.host.events.drop(event)

    def _eventElapsedTime(self, first, last):
        return 1e3 * self.host.events.elapsed_s(first, last)

    # --- driver ------------------------------------------------------------------------------

    def _moduleLoadData(self, image):
        (code,) = (s for s in read_cubin(image).sections if s.name.startswith(".text."))
        number = len(self._modules) + 1
        self._modules[number] = self.host.load({code.name.removeprefix(".text."): code.data})
        return number

    def _moduleUnload(self, module):
        del self._modules[module]

    def _moduleGetFunction(self, module, name):
        return self._modules[module].function(name)

    def _funcGetAttribute(self, attribute, function):
        return 32

    def _funcSetAttribute(self, function, attribute, value):
        assert attribute == 8
        self.host.allow_shared(function, value)

    def _launchKernel(self, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, 0)
        function = self.host._functions[f]
        pointers = self._pointers(params, _parameter_count(function._library, function.entry))
        self.host.launch(f, gx, bx, shared, pointers, stream)

    @staticmethod
    def _pointers(params: int, count: int) -> list[int]:
        places = (ctypes.c_void_p * count).from_address(params)
        return [int(ctypes.c_uint64.from_address(place).value) for place in places]


def _parameter_count(library: Any, entry: str) -> int:
    from tilework.kinds.cuda.emulate.run import _Entry

    return int(_Entry.in_dll(library._library, f"{entry}_entry").count)


def _parameters(module: str, name: str) -> tuple[int, int] | None:
    """How many arguments CuPy's function takes; None without CuPy."""
    try:
        found = importlib.import_module(f"cupy_backends.cuda.api.{module}")
    except ImportError:
        return None
    listed = re.match(rf"{name}\((.*)\)", getattr(found, name).__doc__)[1]
    words = [word for word in listed.split(",") if word.strip()]
    return sum("=" not in word for word in words), len(words)


_RUNTIME = """getDeviceCount setDevice deviceGetAttribute getDeviceProperties memGetInfo malloc
free memsetAsync memcpyAsync streamCreateWithFlags streamDestroy streamSynchronize streamWaitEvent
streamBeginCapture streamEndCapture graphInstantiate graphDestroy graphExecDestroy graphUpload
graphLaunch eventCreate eventCreateWithFlags eventRecord eventDestroy eventElapsedTime"""
_RUNTIME_NUMBERS = {
    "memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "memcpyDeviceToDevice": 3,
    "streamNonBlocking": 1, "streamLegacy": 1, "streamCaptureModeThreadLocal": 1,
    "eventDisableTiming": 2,
}  # fmt: skip
_DRIVER = """moduleLoadData moduleUnload moduleGetFunction funcGetAttribute funcSetAttribute
launchKernel"""
_DRIVER_NUMBERS = {
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8, "CU_FUNC_ATTRIBUTE_NUM_REGS": 4,
}  # fmt: skip
