"""A GPU that this machine's processor stands in for, at its own pace."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilework.kinds.cuda.devices.gpu import CudaDevice, described
from tilework.kinds.cuda.drivers.emulated_driver import EmulatedDriver
from tilework.kinds.cuda.emulate.compile import compiler
from tilework.kinds.cuda.target import CudaTarget
from tilework.measure.host_speed import host_calibration_s
from tilework.measure.settings import Settings
from tilework.target.host import processor_name
from tilework.target.identity import DeviceIdentity


class EmulatedDevice(CudaDevice):
    """The shim as a device: exact, and thousands of times slower than what it stands for."""

    environment: Mapping[str, str] = {}

    def __init__(self, target: CudaTarget) -> None:
        super().__init__(target, lambda: EmulatedDriver(target))

    def require(self, target: CudaTarget) -> None:
        """Only a C++ compiler is needed."""
        compiler()

    def name(self, target: CudaTarget) -> str:
        """What is emulated, and that it is."""
        return f"{described(target)} (emulated)"

    def identity(self, target: CudaTarget) -> DeviceIdentity:
        """The model, and the processor that stands in for it."""
        return DeviceIdentity(self.name(target), (("on", processor_name()),))

    def settings(self) -> Settings:
        """A few single calls: each takes long, and says little."""
        return Settings(
            run_timeout_s=120.0, min_repeat_ms=0.0, repeats=3, short_look=1, final_rounds=2,
            time_budget_ms=100.0, rotate_bytes=0,
        )  # fmt: skip

    def calibration_s(self) -> float:
        """That of the core it runs on."""
        return host_calibration_s()

    def flush(self, target: CudaTarget) -> Callable[[], object]:
        """There are no caches of its own."""
        return lambda: None
