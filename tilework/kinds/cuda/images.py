"""What the image of a network for GPUs holds: launches as documents, functions as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.errors import LaunchError, ModuleError
from tilework.frozen import frozen
from tilework.kinds.cuda.drivers.code_check import check_cubin
from tilework.kinds.cuda.drivers.program import check_places
from tilework.kinds.cuda.launches import Launch, LaunchFormatError, launches_from_json
from tilework.kinds.cuda.target import CudaTarget
from tilework.runtime.image import Image


def plan_piece(symbol: str) -> str:
    """The name under which an image holds a kernel's launches."""
    return f"{symbol}.json"


def code_piece(entry: str, run: str) -> str:
    """The name under which an image holds a function's code.

    Args:
        entry: the function.
        run: of the target: text for the emulation, a cubin for a device.
    """
    return f"{entry}.cu" if run == "emulated" else f"{entry}.cubin"


@frozen
class ImageKernel:
    """A kernel of an image: its launches, and the code of what they start."""

    launches: tuple[Launch, ...]
    code: Mapping[str, bytes]


def kernels_of(image: Image) -> dict[str, ImageKernel]:
    """The kernels that the image's steps name, by symbol.

    Raises:
        ModuleError: one is missing or damaged.
    """
    run = CudaTarget(image.target).run
    return {
        symbol: _kernel(image, symbol, run)
        for symbol in dict.fromkeys(step.symbol for step in image.steps)
    }


def check_steps(image: Image, kernels: Mapping[str, ImageKernel]) -> None:
    """Refuse launches that name arguments or workspace which their steps do not have.

    Raises:
        ModuleError: see above.
    """
    workspace = image.workspace_bytes(1)
    for step in image.steps:
        launches: Sequence[Launch] = kernels[step.symbol].launches
        try:
            check_places(step.symbol, launches, len(step.args), workspace)
        except LaunchError as e:
            raise ModuleError(f"module {image.name}: {e}") from e


def _check_code(image: Image, entry: str, code: bytes) -> None:
    target = CudaTarget(image.target)
    try:
        if target.run == "device":
            check_cubin(entry, code, target.arch)
        elif not code.isascii() or entry.encode() not in code:
            raise LaunchError(f"the code of {entry} is damaged")
    except LaunchError as e:
        raise ModuleError(f"module {image.name}: {e}") from e


def _kernel(image: Image, symbol: str, run: str) -> ImageKernel:
    try:
        launches = launches_from_json(image.code[plan_piece(symbol)])
    except KeyError as e:
        raise ModuleError(f"module {image.name} has no kernel {symbol}") from e
    except LaunchFormatError as e:
        raise ModuleError(f"kernel {symbol} of module {image.name} is damaged: {e}") from e
    code = {}
    for entry in dict.fromkeys(launch.entry for launch in launches):
        text = image.code.get(code_piece(entry, run))
        if text is None:
            raise ModuleError(f"module {image.name} has no code of {entry}")
        _check_code(image, entry, text)
        code[entry] = text
    return ImageKernel(launches, code)
