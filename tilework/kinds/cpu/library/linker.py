"""The C compiler that libraries are linked with: the system's, or the one in a wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilework.errors import ModuleError
from tilework.frozen import frozen
from tilework.target.host import HOST_PLATFORM

_FLAGS = (
    "-std=gnu11", "-O2", "-g0", "-w", "-fPIC", "-shared", "-fvisibility=hidden",
    "-fno-strict-aliasing", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack", "-Wl,-z,relro",
)  # fmt: skip
_ZIG_FLAGS = ("-fno-sanitize=undefined",)
_ZIG_CPU = {"x86_64": ("-mcpu=x86_64",), "aarch64": ()}
_GLIBC = "2.17"
"""The oldest C library that what ziglang links runs with."""


@frozen
class Linker:
    """A C compiler for one architecture.

    Attributes:
        name: for people.
        command: how its command line begins.
    """

    name: str
    command: tuple[str, ...]

    def link(
        self, out: Path, files: Sequence[Path], libraries: Sequence[str], soname: str
    ) -> None:
        """Compile and link C files and objects to a shared library.

        Raises:
            ModuleError: the compiler says why not.
        """
        response = out.with_name("files.txt")
        response.write_text("".join(f'"{_escaped(f)}"\n' for f in files), encoding="utf-8")
        command = [*self.command, *_FLAGS, f"-Wl,-soname,{soname}", "-o", str(out)]
        done = subprocess.run(
            [*command, f"@{response}", *libraries],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=out.parent,
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            reason = (said or done.stderr.splitlines() or ["no message"])[0].strip()
            raise ModuleError(f"the library cannot be linked, {self.name} says: {reason}")


def find_linker(platform: str) -> Linker:
    """A compiler for a platform such as ``linux x86_64``: the system's before a wheel's.

    Raises:
        ModuleError: there is none.
    """
    system, _, arch = platform.partition(" ")
    if system != "linux" or arch not in _ZIG_CPU:
        raise ModuleError(
            f"libraries are made for Linux on {' and '.join(_ZIG_CPU)}, this code is for "
            f"{platform}: save it as a module (.tw)"
        )
    names = ["cc", "gcc", "clang"] if platform == HOST_PLATFORM else []
    for name in (*names, f"{arch}-linux-gnu-gcc"):
        if path := shutil.which(name):
            return Linker(name, (path,))
    if importlib.util.find_spec("ziglang") is not None:
        return zig_linker(arch)
    raise ModuleError(
        f"a library for {platform} needs a C compiler as linker: install the system's (gcc or "
        "clang), or the one that comes as a wheel with pip install 'tilework[clib]'"
    )


def zig_linker(arch: str, python: str = sys.executable) -> Linker:
    """The compiler of the package ziglang, for this or another architecture."""
    command = (python, "-m", "ziglang", "cc", "-target", f"{arch}-linux-gnu.{_GLIBC}")
    return Linker("ziglang", (*command, *_ZIG_CPU[arch], *_ZIG_FLAGS))


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')
