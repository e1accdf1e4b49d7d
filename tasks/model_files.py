"""A model's files while it is compiled: large ones are mapped, and nobody may write to them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tilework.runtime.content import Untouched

if TYPE_CHECKING:
    from tilework.graph.onnx.files import ReadModel


def read_briefly(path: Path) -> tuple[ReadModel, Untouched]:
    """A model whose large weights stay in their files, for who is done with it soon.

    Raises:
        NetworkError: see `tilework.graph.onnx.files.read`.
    """
    from tilework.graph.onnx.files import read

    files = Untouched()
    with suppress(OSError):  # the import says if it is missing
        files.note(path, os.stat(path))
    content = read(path, briefly=True)
    tensors = content.model.graph.initializer
    for name in {e.value for t in tensors for e in t.external_data if e.key == "location"}:
        with suppress(OSError):
            files.note(path.parent / name, os.stat(path.parent / name))
    return content, files


def require_unchanged(files: Untouched | None) -> None:
    """Refuse what was made of files that were written to meanwhile.

    Raises:
        NetworkError: one was.
    """
    if files is not None:
        files.require("while it was compiled: try again")
