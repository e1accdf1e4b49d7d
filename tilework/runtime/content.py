"""The bytes of a file: read, or where the system has them."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import NetworkError
from tilework.runtime.arrays import address, aligned_copy, aligned_empty

Content = NDArray[np.uint8]
"""Writable where it was read into memory, which begins at a multiple of 64 bytes."""

_LARGE = 1 << 25
"""Bytes from which on it is worth a thought that they are in memory twice."""
_MAPS = hasattr(mmap, "MADV_DONTNEED")
_PAGE = mmap.ALLOCATIONGRANULARITY


class Untouched:
    """How files looked before they were read; what was made of mapped ones holds if they still do.

    What has taken a file's place does not count: the bytes that were read are still there.
    """

    def __init__(self) -> None:
        self._looks: dict[Path, tuple[int, int, int, int]] = {}

    def note(self, path: Path, about: os.stat_result) -> None:
        """A file that is about to be read."""
        self._looks[path] = _look(about)

    def require(self, what: str) -> None:
        """Refuse what was made of files that were written to meanwhile.

        Args:
            what: is to be said of them, and done.

        Raises:
            NetworkError: one was.
        """
        for path, before in self._looks.items():
            with suppress(OSError):
                now = _look(os.stat(path))
                if now[2:] == before[2:] and now != before:
                    raise NetworkError(f"'{path}' was written to {what}")


def _look(about: os.stat_result) -> tuple[int, int, int, int]:
    return about.st_size, about.st_mtime_ns, about.st_ino, about.st_dev


class _Mapped(mmap.mmap):
    """A part of a file, whose pages are in memory while somebody needs them."""


def read_content(file: BufferedReader | FileIO, size: int, briefly: bool = False) -> Content:
    """The bytes of an open file, up to its end.

    Args:
        size: that it should have.
        briefly: a large file may be `mapped`.

    Raises:
        OSError: it cannot be read.
        MemoryError: there is no room for it.
    """
    if briefly and size >= _LARGE and (content := mapped(file, 0, size)) is not None:
        return content
    content = aligned_empty((size,), "uint8")
    done = 0
    while done < size and (count := file.readinto(content[done:].data)):
        done += count
    rest = file.read()
    if rest:  # somebody writes to it
        content = aligned_copy(np.concatenate([content[:done], np.frombuffer(rest, np.uint8)]))
        done = len(content)
    return content[:done]


def mapped(file: BufferedReader | FileIO, begin: int, size: int) -> Content | None:
    """Some bytes of an open file, which nobody may write to meanwhile; None where that is not had.

    They take memory as they are read, until `let_go`. If the file is made shorter, reading what it
    lacks ends the process: whoever maps a file is to be done with it soon.

    Args:
        begin, size: which bytes; the file has them.

    Raises:
        OSError: it cannot be read.
    """
    if not _MAPS or not size:
        return None
    before = begin % _PAGE
    memory = _Mapped(
        file.fileno(),
        before + size,
        flags=mmap.MAP_PRIVATE,
        prot=mmap.PROT_READ,
        offset=begin - before,
    )
    return np.frombuffer(memory, np.uint8, size, before)


def let_go(array: NDArray[Any]) -> None:
    """Give the memory of bytes of a mapped file back; they can still be read.

    Of other arrays nothing becomes.
    """
    whole: Any = array
    while isinstance(whole, np.ndarray | memoryview):
        whole = whole.base if isinstance(whole, np.ndarray) else whole.obj
    if isinstance(whole, _Mapped):
        first = address(np.frombuffer(whole, np.uint8))
        low, high = np.lib.array_utils.byte_bounds(array)
        begin = (low - first) // _PAGE * _PAGE
        whole.madvise(mmap.MADV_DONTNEED, begin, high - first - begin)


def unreadable(path: Path | str, error: OSError) -> NetworkError:
    """What a user is told of an ONNX file that cannot be read; of a relative path, also where."""
    if not isinstance(error, FileNotFoundError):
        return NetworkError(f"cannot read the ONNX file '{path}': {error.strerror or error}")
    where = "" if Path(path).is_absolute() else f" in {Path.cwd()}"
    return NetworkError(f"the ONNX file '{path}' does not exist{where}")
