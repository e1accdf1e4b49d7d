"""Files of a model while it is compiled: large ones are mapped, and nobody may write to them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tilework.errors import NetworkError

if TYPE_CHECKING:
    from tilework.graph.onnx.files import ReadModel

Stamp = tuple[int, int, int, int]


class ModelFiles:
    """How a model's files looked when it was read: its own, and those of its weights.

    What has taken a file's place does not count: the bytes that were read are still there.
    """

    def __init__(self) -> None:
        self._stamps: dict[Path, Stamp] = {}

    def note(self, path: Path) -> None:
        """A file that is about to be read; the import says if it is missing."""
        with suppress(OSError):
            self._stamps[path] = _stamp(path)

    def require_unchanged(self) -> None:
        """Refuse what was made of files that were written to meanwhile.

        Raises:
            NetworkError: one was.
        """
        for path, stamp in self._stamps.items():
            with suppress(OSError):
                now = _stamp(path)
                if now[2:] == stamp[2:] and now != stamp:
                    raise NetworkError(f"'{path}' was written to while it was compiled: try again")


def read_briefly(path: Path) -> tuple[ReadModel, ModelFiles]:
    """A model whose large weights stay in their files, for who is done with it soon.

    Raises:
        NetworkError: see `tilework.graph.onnx.files.read`.
    """
    from tilework.graph.onnx.files import read

    files = ModelFiles()
    files.note(path)
    content = read(path, briefly=True)
    tensors = content.model.graph.initializer
    for name in {e.value for t in tensors for e in t.external_data if e.key == "location"}:
        files.note(path.parent / name)
    return content, files


def _stamp(path: Path) -> Stamp:
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns, about.st_ino, about.st_dev
