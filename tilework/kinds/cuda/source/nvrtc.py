"""CUDA C to machine code by NVIDIA's run-time compiler, which needs neither a GPU nor a driver.

Always to a cubin: PTX of a newer compiler is refused by older drivers, and its cost comes back at
every load. The compiler's library is found by CuPy, which one of the extras brings along.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilework.errors import TargetError, TileworkError
from tilework.frozen import frozen
from tilework.kinds.cuda.source.elf import padded

OPTIONS = ("--std=c++17", "--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Stated, so that results do not depend on a compiler's defaults: multiply-adds may be fused,
small numbers are kept, quotients and roots are rounded to nearest."""

INSTALL = "pip install 'tilework[cuda13]' (or tilework[cuda12], for older drivers)"
_LAST_OF_12 = 75
"""Architectures below this one are known to compilers up to CUDA 12 only."""
_MINIMAL = (12, 9)
"""Compilers from this version on can leave out what kernels of ours do not use: textures, the
runtime's functions; the code is the same, four milliseconds earlier."""
_SPILLS = re.compile(
    r"Function properties for (\S+)\s[^\d]*\d+ bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads"
)
_HEADER = Path(__file__).with_name("device.h")


class BuildError(TileworkError):
    """The compiler refuses a kernel's text: a fault of the code generator, or a limit."""


@frozen
class Compiled:
    """Machine code.

    Attributes:
        cubin: an ELF file.
        spilled: by function, bytes that its threads store to and load from memory for want of
            registers.
    """

    cubin: bytes
    spilled: Mapping[str, int]


def available() -> str | None:
    """None if code can be compiled here, else one line that says what to install."""
    return _available()


def require(arch: str) -> None:
    """Refuse to begin where no code can be made.

    Raises:
        TargetError: the compiler is not there, or does not know the architecture.
    """
    missing = available()
    if missing:
        raise TargetError(missing)
    _check_arch(_nvrtc(), arch)


def cubin(text: str, arch: str, name: str) -> bytes:
    """Machine code of kernels; see `compile_text`."""
    return compile_text(text, arch, name).cubin


def compile_text(text: str, arch: str, name: str) -> Compiled:
    """Machine code of kernels.

    Args:
        text: CUDA C in the names of ``device.h``, which is put in front of it.
        arch: architecture, such as ``sm_80``.
        name: what messages call the text.

    Raises:
        TargetError: there is no compiler here, or it does not know the architecture.
        BuildError: the compiler refuses the text; the message is its first error.
    """
    missing = _available()
    if missing:
        raise TargetError(missing)
    nvrtc = _nvrtc()
    _check_arch(nvrtc, arch)
    file = f"{name}.cu"
    program = nvrtc.createProgram(f'{_header()}\n#line 1 "{file}"\n{text}', file, [], [])
    try:
        options = [f"--gpu-architecture={arch}", *OPTIONS, "--ptxas-options=-v"]
        if nvrtc.getVersion() >= _MINIMAL:
            options.append("--minimal")
        try:
            nvrtc.compileProgram(program, tuple(options))
        except nvrtc.NVRTCError as e:
            log = nvrtc.getProgramLog(program)
            raise BuildError(f"{name} for {arch}: {_first_error(log) or e}") from e
        code = padded(nvrtc.getCUBIN(program))
        log = nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)
    spilled = {m[1]: int(m[2]) + int(m[3]) for m in _SPILLS.finditer(log)}
    return Compiled(code, spilled)


def compiler_name() -> str:
    """Name and version of the compiler, for people.

    Raises:
        TargetError: there is none.
    """
    missing = _available()
    if missing:
        raise TargetError(missing)
    return "NVRTC {}.{}".format(*_nvrtc().getVersion())


def _check_arch(nvrtc: Any, arch: str) -> None:
    known = [f"sm_{number}" for number in nvrtc.getSupportedArchs()]
    if arch in known:
        return
    if int(arch.removeprefix("sm_")) < _LAST_OF_12:
        hint = "the one of CUDA 12 does: pip install 'tilework[cuda12]' in another environment"
    else:
        hint = "a newer one may: pip install -U 'tilework[cuda13]'"
    raise TargetError(
        f"{compiler_name()} makes no code for {arch} (it knows {known[0]} to {known[-1]}): {hint}"
    )


def _first_error(log: str) -> str:
    """The first line of a compiler's log that tells an error."""
    lines = (line.strip("\0 ") for line in log.splitlines())  # the assembler's begin with zeros
    return next((line for line in lines if re.search(r"\berror\b", line)), "")


@lru_cache(maxsize=1)
def _header() -> str:
    return _HEADER.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _available() -> str | None:
    try:
        _nvrtc().getVersion()
    except ImportError as e:
        return f"compiling for CUDA needs CuPy ({e}): {INSTALL}"
    except Exception as e:  # the loader's own kinds of error
        why = (str(e).splitlines() or [type(e).__name__])[0]
        return f"compiling for CUDA needs NVRTC, which does not load ({why}): {INSTALL}"
    return None


def _nvrtc() -> Any:
    from cupy_backends.cuda.libs import nvrtc

    return nvrtc
