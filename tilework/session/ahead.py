"""What a compile needs, imported while the digest of a large model is made.

The digest says whether there is a form of the model, and a start that finds one does without all
this. So importing goes on only as long as the digest takes, whose thread does without Python's
lock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TypeVar

from tilework.deferred import Deferred, Helpers

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
