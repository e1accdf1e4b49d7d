"""All bytes of a file in memory."""

from __future__ import annotations

from io import BufferedReader, FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilework.errors import NetworkError
from tilework.runtime.arrays import aligned_copy, aligned_empty

Content = NDArray[np.uint8]
"""It begins at a multiple of 64 bytes."""


def read_content(file: BufferedReader | FileIO, size: int) -> Content:
    """The bytes of an open file, up to its end.

    Args:
        size: that it should have.

    Raises:
        OSError: it cannot be read.
        MemoryError: there is no room for it.
    """
    content = aligned_empty((size,), "uint8")
    done = 0
    while done < size and (count := file.readinto(content[done:].data)):
        done += count
    rest = file.read()
    if rest:  # somebody writes to it
        content = aligned_copy(np.concatenate([content[:done], np.frombuffer(rest, np.uint8)]))
        done = len(content)
    return content[:done]


def unreadable(path: Path | str, error: OSError) -> NetworkError:
    """What a user is told of an ONNX file that cannot be read; of a relative path, also where."""
    if not isinstance(error, FileNotFoundError):
        return NetworkError(f"cannot read the ONNX file '{path}': {error.strerror or error}")
    where = "" if Path(path).is_absolute() else f" in {Path.cwd()}"
    return NetworkError(f"the ONNX file '{path}' does not exist{where}")
