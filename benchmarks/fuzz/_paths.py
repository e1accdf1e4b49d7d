"""The paths of a model through the product that are fuzzed, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path as File
from typing import Any, Protocol

from _judge import Verdict

PATHS = {
    "onnx": "_onnx_path:OURS",
    "nnsmith": "_onnx_path:NNSMITH",
    "torch": "_torch_path:PATH",
    "nnsmith-torch": "_torch_path:SMITH",
    "integers": "_integers_path:PATH",
    "ranges": "_ranges_path:PATH",
}


class Path(Protocol):
    """How cases of one path are made, judged, made smaller and kept."""

    def make(self, seed: int) -> Any:
        """The case of a seed."""

    def check(self, case: Any) -> Verdict:
        """What becomes of it; this process may die."""

    def smaller(self, case: Any, still: Callable[[Any], bool]) -> Any:
        """The smallest case found for which ``still`` holds."""

    def save(self, case: Any, folder: File, name: str) -> File:
        """Keep it in files of this name; returns the one to load."""

    def load(self, path: File) -> Any:
        """What `save` kept."""

    def describe(self, case: Any) -> str:
        """Its operators, in a line."""


def path_of(name: str) -> Path:
    """A path by its name in `PATHS`."""
    module, _, attribute = PATHS[name].partition(":")
    found: Path = getattr(importlib.import_module(module), attribute)
    return found
