"""Code of GPU functions, checked before a device is given it: CUDA may end the process over it."""

from __future__ import annotations

from tilework.errors import LaunchError
from tilework.kinds.cuda.source.elf import CubinError, read_cubin


def check_cubin(entry: str, code: bytes, arch: str) -> None:
    """Refuse bytes that are no cubin with this function for this architecture.

    Raises:
        LaunchError: see above.
    """
    try:
        cubin = read_cubin(code)
    except CubinError as e:
        raise LaunchError(f"the code of {entry} is damaged: {e}") from e
    if f"sm_{cubin.arch}" != arch:
        raise LaunchError(f"the code of {entry} is for sm_{cubin.arch}, not {arch}")
    if all(section.name != f".text.{entry}" for section in cubin.sections):
        raise LaunchError(f"there is no function {entry} in its code")
