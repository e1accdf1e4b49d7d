"""Opening what was saved: a module, or a folder of modules."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tilework.runtime.archive import read_image
from tilework.runtime.module import Module
from tilework.runtime.signature import Key

if TYPE_CHECKING:
    from tilework.runtime.parts import PartedModule


def load_module(
    path: str | PathLike[str], *, public_key: Key | None = None
) -> Module | PartedModule:
    """Read a module that this machine can run.

    A module is native code: running it is running a program, with all that this process may do.
    Load only files that you trust. A damaged file is told; one that was made to do harm is not,
    unless its signature is demanded.

    Args:
        path: of a file that `Module.save` wrote; or of a folder that `PartedModule.save` wrote.
        public_key: load the module only if ``path`` + ``.sig`` (of a folder, ``parts.json.sig``
            in it) is its signature by this Ed25519 key (the path or the bytes of a PEM file, or
            its 32 bytes).

    Returns:
        A `Module`; of a folder, a `tilework.runtime.parts.PartedModule`, which is used alike.

    Raises:
        ModuleError: the file is missing, no module, damaged, or not signed by the key; it was made
            for another version of the ABI; or its code needs another platform or CPU; or ONNX
            Runtime is needed and not there.
    """
    if not Path(path).is_dir():
        return Module(read_image(Path(path), public_key))
    from tilework.runtime.folder import read_folder
    from tilework.runtime.other import engine
    from tilework.runtime.parts import PartedModule

    image, threads = read_folder(path, public_key)
    engine(image.left.operators)
    return PartedModule(image, threads)
