"""Compiled networks on GPUs: the room ``executor``. It needs nothing of the compiler."""

from __future__ import annotations

from functools import lru_cache

from tilework.errors import DeviceLost, ModuleError, TargetError
from tilework.kinds.cuda.drivers.cupy_driver import CupyDriver
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.emulated_driver import EmulatedDriver
from tilework.kinds.cuda.emulate.compile import compiler
from tilework.kinds.cuda.images import check_steps, kernels_of
from tilework.kinds.cuda.launches import FORMAT
from tilework.kinds.cuda.network import LoadedNetwork
from tilework.kinds.cuda.probe import look
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override
from tilework.runtime.executor import Executor
from tilework.runtime.image import Image


class CudaExecutor(Executor):
    """Runs cubins on a device, or the text of kernels on its emulation."""

    @override
    def check(self, image: Image, what: str) -> None:
        target = _target(image, what)
        if image.symbols:
            names = ", ".join(s.name for s in image.symbols)
            raise ModuleError(
                f"{what} has symbolic shapes ({names}), which GPUs do not run yet: compile the "
                "network for numbers"
            )
        formats = sorted({n for n in image.needs if n.startswith("cuda-launches")} - {FORMAT})
        if formats:
            raise ModuleError(
                f"{what} needs {', '.join(formats)}, which this version does not read (it reads "
                f"{FORMAT}): compile the network again"
            )
        if target.run == "simulated":
            raise ModuleError(
                f"{what} is for '{target}': nothing runs on a simulated device; compile it "
                "without -run=simulated"
            )
        if target.run == "emulated":
            try:
                compiler()
            except TargetError as e:
                raise ModuleError(f"{what} cannot run here: {e}") from e
            return
        seen = look()
        if not seen.devices:
            raise ModuleError(
                f"{what} was compiled for {target.arch}, and no CUDA device is here: "
                f"{seen.why_none}"
            )
        if all(device.arch != target.arch for device in seen.devices):
            here = ", ".join(f"{device.arch} ({device.name})" for device in seen.devices)
            raise ModuleError(
                f"{what} was compiled for {target.arch}; this device is {here}: compile the "
                "network for 'cuda -arch=native' here"
            )

    def check_threads(self, image: Image, threads: int) -> None:
        """A GPU's threads are a matter of schedules."""
        if threads > 1:
            raise ModuleError(
                f"module {image.name} is for a GPU ('{image.target}') and has no number of "
                f"threads to set: leave out the {threads} threads"
            )

    @override
    def check_code(self, image: Image) -> None:
        check_steps(image, kernels_of(image))

    @override
    def load(self, image: Image) -> LoadedNetwork:
        target = _target(image, f"module {image.name}")
        self.check_code(image)
        try:
            return LoadedNetwork(image, target, _driver(target))
        except DeviceLost as e:
            raise ModuleError(f"module {image.name} cannot run here: {e}") from e


def _target(image: Image, what: str) -> CudaTarget:
    try:
        return CudaTarget(image.target)
    except TargetError as e:
        raise ModuleError(f"{what} cannot run here: {e}") from e


@lru_cache(maxsize=16)
def _driver(target: CudaTarget) -> Driver:
    """The device of a target; all modules of a process share it."""
    return EmulatedDriver(target) if target.run == "emulated" else CupyDriver(target.arch)


EXECUTOR = CudaExecutor()
