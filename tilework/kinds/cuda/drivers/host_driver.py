"""A GPU that is this machine's memory and processor: what all of these have in common.

Launches are held to the limits of the architecture, as a device would hold them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from tilework.errors import LaunchError
from tilework.kinds.cuda.architectures import STATIC_SHARED
from tilework.kinds.cuda.drivers.driver import Code, DeviceFacts, Driver
from tilework.kinds.cuda.drivers.host_parts import CAPACITY, HostEvents, HostMemory, HostStreams
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override


class HostFunction(Protocol):
    """A kernel of this process."""

    @property
    def entry(self) -> str:
        """Its name."""

    def run(self, grid: int, block: int, shared: int, pointers: Sequence[int]) -> None:
        """Run it to its end.

        Raises:
            DeviceError: it does what no device allows.
        """


class HostDriver(Driver):
    """`tilework.kinds.cuda.drivers.driver.Driver` but for loading code: `functions_of` does that.

    Args:
        target: the device that is described here.
    """

    def __init__(self, target: CudaTarget) -> None:
        model, self._limits = target.device, target.limits
        self._facts = DeviceFacts(
            name=f"NVIDIA {model.board}",
            arch=target.arch,
            sms=model.sms,
            ghz=model.ghz,
            dram_bytes_per_s=model.dram_bytes_per_s,
            l2_bytes=model.l2_bytes,
            memory_bytes=CAPACITY,
            shared_per_block=self._limits.shared_per_block,
        )
        self.streams = self._streams = HostStreams()
        self.memory = HostMemory(self._streams)
        self.events = HostEvents()
        self._numbers = itertools.count(1)
        self._functions: dict[int, HostFunction] = {}
        self._allowed: dict[int, int] = {}

    def functions_of(self, code: Mapping[str, bytes]) -> Mapping[str, HostFunction]:
        """Functions by name.

        Raises:
            LaunchError: the code is none.
        """
        raise NotImplementedError

    @override
    def facts(self) -> DeviceFacts:
        return self._facts

    @override
    def load(self, code: Mapping[str, bytes]) -> HostCode:
        numbers = {}
        for entry, function in self.functions_of(code).items():
            numbers[entry] = next(self._numbers)
            self._functions[numbers[entry]] = function
        return HostCode(self._functions, numbers)

    @override
    def allow_shared(self, function: int, nbytes: int) -> None:
        if nbytes > self._limits.shared_per_block:
            raise LaunchError(
                f"{nbytes} bytes of shared memory are more than the "
                f"{self._limits.shared_per_block} of a block of {self._limits.name}"
            )
        self._allowed[function] = nbytes

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
        kernel = self._functions[function]
        if shared > self._allowed.get(function, STATIC_SHARED):
            raise LaunchError(f"{kernel.entry} may not have {shared} bytes of shared memory")
        if not 1 <= block <= self._limits.max_threads or grid < 1:
            raise LaunchError(f"{grid} blocks of {block} threads cannot be launched")
        self._streams.do(stream, partial(kernel.run, grid, block, shared, tuple(pointers)))


class HostCode(Code):
    """Kernels of this process: `tilework.kinds.cuda.drivers.driver.Code`."""

    def __init__(self, functions: dict[int, HostFunction], numbers: Mapping[str, int]) -> None:
        self._functions, self._numbers = functions, numbers

    @override
    def function(self, entry: str) -> int:
        if entry not in self._numbers:
            raise LaunchError(f"there is no function {entry}")
        return self._numbers[entry]

    def __del__(self) -> None:
        for number in self._numbers.values():
            self._functions.pop(number, None)
