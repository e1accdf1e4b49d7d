"""What a compile needs, loaded by another thread or while the digest of a large model is made.

The digest says whether there is a form of the model, and a start that finds one does without all
this. So importing goes on only as long as the digest takes, whose thread does without Python's
lock.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TypeVar

from tilework.deferred import Deferred, Helpers
from tilework.target.host import available_cores

T = TypeVar("T")

_NEEDED = (
    "google.protobuf.internal.builder",
    "tilework.graph.onnx.cut",
    "tilework.compiler",
    "tilework.model.drafted",
    "llvmlite.binding",
)
"""In the order in which they are needed; last what not every target does."""


def importing(work: Callable[[], T]) -> T:
    """What a function returns, or raises, called by another thread where there can be one."""
    with Helpers() as helpers:
        deferred = Deferred(work)
        helpers.start(deferred)
        with suppress(ImportError):  # whoever needs it has the word
            for name in _NEEDED:
                if deferred.over:
                    break
                import_module(name)
        return deferred.result()


def loading_llvm() -> None:
    """Have LLVM's library loaded by a thread beside the caller, where nobody has.

    Its addresses are written into it then, 15 to 40 ms for which nobody needs Python's lock.
    """
    if available_cores() > 1 and "llvmlite.binding" not in sys.modules:
        package = find_spec("llvmlite")
        for folder in (package and package.submodule_search_locations) or ():
            for path in Path(folder, "binding").glob("*llvmlite.*"):
                Thread(target=_load, args=(path,), name="tilework loading", daemon=True).start()


def _load(path: Path) -> None:
    with suppress(OSError):  # whoever needs it has the word
        ctypes.CDLL(str(path))
