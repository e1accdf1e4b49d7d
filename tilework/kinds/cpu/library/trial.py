"""Whether a library computes what its module does, bit for bit; asked before it gets its name."""

from __future__ import annotations

import _ctypes
import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.bound import random_inputs
from tilework.runtime.image import Image
from tilework.runtime.module import Module

Array = NDArray[Any]


def try_level(path: Path, name: str, level: str, image: Image) -> None:
    """Run a library's level and the image on the same random input.

    Args:
        path: of the library.
        name: its functions are called ``tw_NAME_create`` and so on.
        level: the image's.

    Raises:
        ModuleError: the library cannot be opened or run, or its output differs.
    """
    inputs = random_inputs(image.ends)
    wanted = Module(image).run(*inputs)
    outputs = [aligned_empty(v.dims, v.dtype) for v in image.outputs]
    for output in outputs:
        output.view(np.uint8 if output.shape else output.dtype)[...] = 0
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise ModuleError(f"the new library cannot be opened: {e}") from e
    try:
        _run(library, name, level, image.num_threads, inputs, outputs)
    finally:
        _ctypes.dlclose(library._handle)
    for value, mine, theirs in zip(image.outputs, wanted, outputs, strict=True):
        if mine.tobytes() != theirs.tobytes():
            raise ModuleError(
                f"the new library computes something else than the module: output {value.name} "
                f"at level {level}"
            )


def _run(
    library: ctypes.CDLL,
    name: str,
    level: str,
    threads: int,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    create, run = library[f"tw_{name}_create_at"], library[f"tw_{name}_run"]
    destroy, last_error = library[f"tw_{name}_destroy"], library[f"tw_{name}_last_error"]
    last_error.restype = ctypes.c_char_p
    context = ctypes.c_void_p()
    if create(level.encode(), threads, ctypes.byref(context)):
        raise ModuleError(f"the new library does not run: {last_error().decode()}")
    try:
        if run(context, _pointers(inputs), _pointers(outputs)):
            raise ModuleError(f"the new library does not run: {last_error().decode()}")
    finally:
        destroy(context)


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
