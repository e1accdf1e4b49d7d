"""How each operator of a network is written as ONNX nodes, a family a module."""

from __future__ import annotations

from tilework.graph.onnx.write import (
    activations,
    elementwise,
    indexing,
    matrices,
    normal,
    packed,
    quantized,
    recurrent,
    reductions,
    views,
    windows,
)
from tilework.graph.onnx.write.writer import Write, Writer

_FAMILIES = (
    windows, matrices, normal, elementwise, activations, reductions, views, indexing, quantized,
    packed, recurrent,
)  # fmt: skip

WRITERS: dict[str, Write] = {
    op: write for family in _FAMILIES for op, write in family.WRITERS.items()
}

__all__ = ["WRITERS", "Write", "Writer"]
