"""Where the weight files of a model may lie: beside it, and where a model hub's cache keeps them.

A model's text is not trusted: a location in it is relative, and stays within the model's folder.
Links are followed, because caches are made of them, but not to anywhere:

    models--org--name/
        snapshots/<revision>/model.onnx       -> ../../blobs/<hash>
        snapshots/<revision>/model.onnx_data  -> ../../blobs/<hash>

A file that a location leads to must lie, all links followed, in the model's folder, in the folder
that the model's own file is linked from, or in the ``blobs`` of the cache that its folder is part
of. Whoever packs a model can make links, too; these folders hold nothing but models.
"""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

from tilework.errors import NetworkError
from tilework.frozen import frozen
from tilework.runtime.content import Content


@frozen
class Places:
    """The folders of a model.

    Attributes:
        folder: that its file was named in; locations are relative to it.
        homes: that its weight files may lie in, links followed.
        content: of its own file, where large tensors are; None if they were all read.
        briefly: weight files may be mapped: `tilework.runtime.content.mapped`.
    """

    folder: Path
    homes: tuple[Path, ...]
    content: Content | None = field(default=None, compare=False, repr=False)
    briefly: bool = False

    def find(self, location: str, constant: str) -> Path:
        """The path of ``location``, links followed; the file need not exist.

        Raises:
            NetworkError: it leads elsewhere; the message names ``constant``, which lies there.
        """
        try:
            path = (self.folder / location).resolve()
            inside = _stays(location) and any(path.is_relative_to(home) for home in self.homes)
        except (OSError, ValueError, RuntimeError):  # a name that no file can have
            inside = False
        if not inside:
            raise NetworkError(
                f"constant '{constant}' names the file '{location}' outside the model's folder; "
                "copy the file there if you trust it"
            )
        return path


def places_of(model: Path, content: Content | None = None, briefly: bool = False) -> Places:
    """The folders of the model in this file, and what is in it."""
    folder = model.parent.resolve()
    homes = [folder, model.resolve().parent]
    for above in folder.parents:
        if above.name == "snapshots" and above.parent.name.startswith("models--"):
            homes.append(above.parent / "blobs")  # not resolved: it may be a link elsewhere
    return Places(model.parent, tuple(dict.fromkeys(homes)), content, briefly)


def _stays(location: str) -> bool:
    """Whether a location is relative and does not leave its folder."""
    if not location or Path(location).is_absolute():
        return False
    return Path(os.path.normpath(location)).parts[:1] != ("..",)
