"""A GPU made up for tests: its kernels are Python, and go wrong as their code says.

Errors have CUDA's numbers, come when the stream is waited for, and stay if CUDA's would. What the
whole device is like stands in the environment variable FAKE_GPU: it reaches worker processes.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilework.kinds.cuda.devices.gpu import CudaDevice
from tilework.kinds.cuda.drivers.errors import device_error
from tilework.kinds.cuda.drivers.host_driver import HostDriver
from tilework.kinds.cuda.drivers.host_parts import HostMemory, HostStreams
from tilework.kinds.cuda.launches import Launch, launches_to_json
from tilework.kinds.cuda.target import CudaTarget
from tilework.lower.kernel import Kernel, KernelArg
from tilework.lower.protocol import Builder

STATES = {
    "busy": (46, "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable"),
    "old": (35, "cudaErrorInsufficientDriver: CUDA driver version is insufficient"),
    "none": (100, "cudaErrorNoDevice: no CUDA-capable device is detected"),
}
FAULTS = (
    "fine", "bad_image", "no_entry", "bad_plan", "too_large", "illegal_address", "launch_failure",
    "hang", "out_of_memory", "wrong", "not_written", "overrun", "lost", "lost_once",
)  # fmt: skip
"""What the code of a kernel may say; the number of a candidate's row is a place in this list."""


@dataclass(frozen=True)
class FakeFunction:
    """C = A + B of n float32 elements, or something else."""

    entry: str
    fault: str
    driver: FakeDriver

    def run(self, grid: int, block: int, shared: int, pointers: Sequence[int]) -> None:
        n = grid * block
        a, b, c = (np.ctypeslib.as_array((ctypes.c_float * n).from_address(p)) for p in pointers)
        match self.fault:
            case "illegal_address":
                self.driver.pending = (700, "cudaErrorIllegalAddress: an illegal memory access")
            case "launch_failure":
                self.driver.pending = (719, "cudaErrorLaunchFailure: unspecified launch failure")
            case "hang":
                self.driver.hangs = True
            case "lost":
                raise device_error(*STATES["busy"], "launching")
            case "lost_once" if not Path(os.environ["FAKE_GPU_MARKER"]).exists():
                Path(os.environ["FAKE_GPU_MARKER"]).touch()
                raise device_error(*STATES["none"], "launching")
            case "not_written":
                c[:-1] = a[:-1] + b[:-1]
            case _:
                np.add(a, b, out=c)
        if self.fault == "wrong":
            c[7] += 0.5
        if self.fault == "overrun":
            ctypes.c_float.from_address(pointers[2] + 4 * n).value = 1.0


class FakeStreams(HostStreams):
    def __init__(self, driver: FakeDriver) -> None:
        super().__init__()
        self._driver = driver

    def synchronize(self, stream: int) -> None:
        driver = self._driver
        while driver.hangs:
            time.sleep(1)
        if driver.pending:
            driver.broken, driver.pending = driver.pending, None
        driver.alive("running")


class FakeMemory(HostMemory):
    def __init__(self, driver: FakeDriver, streams: FakeStreams) -> None:
        super().__init__(streams)
        self._driver = driver

    def read(self, array: Any, address: int, stream: int) -> None:
        self._driver.streams.synchronize(stream)
        super().read(array, address, stream)

    def allocate(self, nbytes: int) -> int:
        self._driver.alive("allocating")
        return super().allocate(nbytes)


class FakeDriver(HostDriver):
    """See the module's text."""

    def __init__(self, target: CudaTarget) -> None:
        super().__init__(target)
        self.pending: tuple[int, str] | None = None
        self.broken: tuple[int, str] | None = None
        self.hangs = False
        self.streams = self._streams = FakeStreams(self)
        self.memory = FakeMemory(self, self._streams)
        state = os.environ.get("FAKE_GPU", "")
        if state in STATES:
            raise device_error(*STATES[state], "opening the device")

    def functions_of(self, code: Mapping[str, bytes]) -> Mapping[str, Any]:
        self.alive("loading")
        for entry, text in code.items():
            if text.startswith(b"\x7fELF"):
                continue
            if text.decode() not in FAULTS or text == b"bad_image":
                raise device_error(200, "CUDA_ERROR_INVALID_IMAGE", f"loading {entry}")
        return {e: FakeFunction(e, _fault(text), self) for e, text in code.items() if e != "gone"}

    def launch(
        self,
        function: int,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        self.alive("launching")
        super().launch(function, grid, block, shared, pointers, stream)

    def alive(self, doing: str) -> None:
        if self.broken:
            raise device_error(*self.broken, doing)


class FakeBuilder(Builder):
    """Kernels of the addition whose code is the name of what goes wrong."""

    def build(self, task: Any, sketch_id: int, row: Sequence[int]) -> Kernel:
        return add_kernel(FAULTS[row[0]], task.compute_dag.inputs[0].shape[0])


def add_kernel(fault: str, n: int) -> Kernel:
    """A kernel of n elements, a multiple of 100, with this fault."""
    entry = "gone" if fault == "no_entry" else "add"
    shared = 2**20 if fault == "too_large" else 0
    places = tuple(("argument", i) for i in range(3))
    plan = launches_to_json([Launch(entry, n // 100, 100, shared, places)])
    roles = zip("ABC", ("input", "input", "output"), strict=True)
    return Kernel(
        "kernel",
        (("kernel", plan[:-4] if fault == "bad_plan" else plan), (entry, fault.encode())),
        f"code-{fault}",
        tuple(KernelArg(name, (n,), "float32", role) for name, role in roles),
        100 << 30 if fault == "out_of_memory" else 0,
        0,
    )


def _fault(text: bytes) -> str:
    return "fine" if text.startswith(b"\x7fELF") else text.decode()


class FakeGpu(CudaDevice):
    """The device of any target, over a `FakeDriver`."""

    def __init__(self) -> None:
        target = CudaTarget("cuda -model=a100")
        super().__init__(target, lambda: FakeDriver(target))

    def calibration_s(self) -> float:
        self.driver.streams.synchronize(self.stream.number)
        return 1e-4


BUILDER = FakeBuilder()
DEVICE = FakeGpu()
