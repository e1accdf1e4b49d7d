"""Kernels' text as a shared library for this machine, and the runtime that it runs in.

Libraries are kept in the user's cache folder by what they are made of, and the ones that were
not used for longest go when there are too many.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tilework.errors import TargetError
from tilework.target.host import HOST_PLATFORM, processor_name
from tilework.whole import folder_beside

HEADERS = Path(__file__).parents[1] / "source"
SHIM = Path(__file__).parent / "shim"
# Compiled as one: they share the library's headers. The last one takes names of these.
RUNTIME = ("runtime.cpp", "scheduler.cpp", "fibres.cpp", "memory.cpp", "reports.cpp",
           "traffic.cpp", "warps.cpp")  # fmt: skip

KEPT_FILES = 1000
KEPT_BYTES = 512 << 20

_COMMON = ("-std=c++17", "-fPIC", "-shared", "-w")
# Variables that nobody initialises begin with a pattern that does not look like a result. gcc
# knows this since 12, and does without before.
_PATTERN = "-ftrivial-auto-var-init=pattern"
_KERNEL = ("-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
           "-fvisibility=hidden", _PATTERN)  # fmt: skip
_FAST = ("-O3", *_KERNEL)
# Checked kernels are small and compiled once for each run, so less optimised; but products and
# sums are fused as in fast ones, which gcc counts among its expensive optimisations.
_CHECKED = ("-O1", "-fexpensive-optimizations", *_KERNEL, "-DTW_CHECKED", "-fsanitize=bounds")


def compiler() -> list[str]:
    """The C++ compiler as the beginning of a command.

    Raises:
        TargetError: there is none.
    """
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    raise TargetError(
        "emulated CUDA kernels need a C++ compiler: install the system's (g++ or clang++), or the "
        "one that comes as a wheel with pip install 'tilework[emulate]'"
    )


def compile_text(entries: Sequence[tuple[str, str]], checked: bool = False) -> Path:
    """One library of several kernels.

    Args:
        entries: name and text of each; the text has one kernel of this name.
        checked: whether accesses are checked; such code takes some ten times as long to run.

    Returns:
        The library's file, for `tilework.kinds.cuda.emulate.run.Emulated`.

    Raises:
        TargetError: there is no compiler, or it refuses the text.
    """
    flags = _CHECKED if checked else _FAST
    if "ziglang" in compiler():
        # It would build the C++ library first, of which kernels need nothing.
        flags = (*flags, "-nostdlib++")
    return _library("kernels", library_text(entries), flags)


def runtime_library() -> Path:
    """The runtime that libraries of kernels are attached to, built where there is none yet.

    Raises:
        TargetError: there is no compiler.
    """
    text = "".join(f'#line 1 "{name}"\n{(SHIM / name).read_text()}\n' for name in RUNTIME)
    return _library("runtime", text, ("-O2",))


def library_text(entries: Sequence[tuple[str, str]]) -> str:
    """What is compiled: the kernels behind the header, each with lines of its own."""
    parts = [f"#define TW_GRANULE {_granule(entries)}\n", '#include "device.h"\n']
    for name, text in entries:
        parts.append(f'#line 1 "{name}"\n{text}\nTW_ENTRY({name})\n')
    return "".join(parts)


_BYTES = {
    "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "tw_bf16": 2, "tw_f16": 2,
}  # fmt: skip


def _granule(entries: Sequence[tuple[str, str]]) -> int:
    """Bytes of shared memory that are watched as one: those of the smallest type, at most 4."""
    types = {t for _, text in entries for t in re.findall(r"\bTW_SHARED\(\s*(\w+)\s*,", text)}
    return min((_BYTES.get(t, 4) for t in types), default=4)


def _library(kind: str, text: str, flags: Sequence[str]) -> Path:
    command = [*compiler(), *_COMMON, *flags]
    path = cache_folder() / f"{kind}-{_key(command, text)}.so"
    try:
        os.utime(path)
        return path
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, so that renaming the result is one step: others see all of it or nothing.
    with folder_beside(path) as folder:
        source, out = folder / f"{kind}.cpp", folder / path.name
        source.write_text(text, encoding="utf-8")
        _run([*command, f"-I{HEADERS}", f"-I{SHIM}", "-o", str(out), str(source)])
        out.replace(path)
    _drop_oldest(path.parent, keep=path)
    return path


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and _PATTERN in command and _PATTERN in done.stderr:
        return _run([word for word in command if word != _PATTERN])
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        said = (errors or done.stderr.splitlines() or ["no message"])[0].strip()
        raise TargetError(f"the C++ compiler refuses a kernel: {said}")


def _key(command: Sequence[str], text: str) -> str:
    """What a library depends on: text, headers, flags, compiler, and this processor."""
    program = os.stat(command[0])
    parts = [
        *command, f"{program.st_size} {program.st_mtime_ns}", HOST_PLATFORM, processor_name(),
        _headers(), text,
    ]  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def _headers() -> str:
    return "".join(p.read_text() for p in sorted((*HEADERS.glob("*.h"), *SHIM.glob("*.h"))))


def cache_folder() -> Path:
    """Where libraries are kept: `tilework/emulate` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tilework" / "emulate"


def _drop_oldest(folder: Path, keep: Path) -> None:
    """Remove what was used longest ago until what is left is few and small enough.

    Libraries in use stay in memory though their file is gone.
    """
    libraries = []
    for path in folder.glob("*.so"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # another process was first
        libraries.append((stat.st_mtime_ns, stat.st_size, path))
    libraries.sort(reverse=True)
    total = 0
    for count, (_, size, path) in enumerate(libraries, 1):
        total += size
        if path != keep and (count > KEPT_FILES or total > KEPT_BYTES):
            path.unlink(missing_ok=True)
