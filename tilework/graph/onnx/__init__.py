"""ONNX files: reading (`importer`, `convert`) and writing (`export`, `write`).

Importing this package does not import ``onnx``, which is slow; its functions do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.graph.onnx.context import ValuesNeeded
from tilework.graph.onnx.importer import from_onnx
from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.graph.onnx.export import to_model, to_onnx

__getattr__ = names_of(__name__, {"export": ("to_model", "to_onnx")})

__all__ = ["ValuesNeeded", "from_onnx", "to_model", "to_onnx"]
