"""What can be told of a library's file before the system loads it.

The system's loader trusts a file's tables: one that ends too early kills the process later, when
a page is read that is not there.
"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

from tilework_runtime.errors import LibraryError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION_BYTES = 64
_SHARED, _LOAD = 3, 1
_MACHINES = {3: "32-bit x86", 40: "32-bit ARM", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def check_file(path: Path) -> None:
    """Refuse a file that is no whole shared library for this machine.

    Raises:
        LibraryError: see above.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
            if not head.startswith(b"\x7fELF"):
                raise LibraryError(f"{path} is no shared library: compile one with -o NAME.so")
            if len(head) < _HEADER.size:
                raise LibraryError(f"{path} is damaged: it ends after {size} bytes")
            _check_head(path, head)
            fields = _HEADER.unpack(head)
            segments, sections, count = fields[5], fields[6], fields[10]
            file.seek(segments)
            table = file.read(count * _SEGMENT.size)
    except OSError as e:
        raise LibraryError(f"cannot read {path}: {e.strerror or e}") from e
    if len(table) < count * _SEGMENT.size:
        raise LibraryError(f"{path} is damaged: it ends after {size} bytes")
    ends = [sections + fields[12] * _SECTION_BYTES if sections else 0]
    for kind, _, offset, _, _, length, _, _ in _SEGMENT.iter_unpack(table):
        if kind == _LOAD:
            ends.append(offset + length)
    if max(ends) > size:
        raise LibraryError(
            f"{path} is damaged: it has {size} of its {max(ends)} bytes; copy it again"
        )


def _check_head(path: Path, head: bytes) -> None:
    fields = _HEADER.unpack(head)
    here = platform.machine()
    name = _MACHINES.get(fields[2], f"machine {fields[2]}")
    if head[4:6] != b"\x02\x01" or name != here:
        raise LibraryError(f"{path} is for {name}, this machine is {here}: compile it for {here}")
    if fields[1] != _SHARED:
        raise LibraryError(f"{path} is an object file or a program, no shared library")
