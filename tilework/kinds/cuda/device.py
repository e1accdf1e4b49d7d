"""GPUs as what kernels are measured on: the room ``device``.

How a target's programs are run is part of its text: on the device, emulated, or not at all.
"""

from __future__ import annotations

from functools import lru_cache, partial

from tilework.kinds.cuda.devices.emulated import EmulatedDevice
from tilework.kinds.cuda.devices.gpu import CudaDevice
from tilework.kinds.cuda.devices.simulated import SimulatedDevice
from tilework.kinds.cuda.drivers.cupy_driver import CupyDriver
from tilework.kinds.cuda.target import CudaTarget


class CudaDevices:
    """The devices of all targets: each by its own."""

    def for_target(self, target: CudaTarget) -> CudaDevice | SimulatedDevice:
        """The device that runs this target's programs, or does as if; one per target."""
        return _device(target)


@lru_cache(maxsize=16)
def _device(target: CudaTarget) -> CudaDevice | SimulatedDevice:
    if target.run == "emulated":
        return EmulatedDevice(target)
    if target.run == "simulated":
        return SimulatedDevice(target)
    return CudaDevice(target, partial(CupyDriver, target.arch))


DEVICE = CudaDevices()
