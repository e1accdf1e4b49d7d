"""ONNX files: reading (`importer`, `convert`) and writing (`export`, `write`).

Importing this package does not import ``onnx``, which is slow; its functions do.
"""

from __future__ import annotations

from tilework.graph.onnx.context import ValuesNeeded
from tilework.graph.onnx.export import to_model, to_onnx
from tilework.graph.onnx.importer import from_onnx

__all__ = ["ValuesNeeded", "from_onnx", "to_model", "to_onnx"]
