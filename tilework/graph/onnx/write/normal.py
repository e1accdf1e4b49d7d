"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _batch_norm(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    rank = len(w.net.types[node.name].shape)
    if node.attrs["axis"] % rank != 1:
        raise NetworkError(f"node '{node.name}': ONNX normalises along dimension 1 only")
    w.add("BatchNormalization", inputs, out, epsilon=node.attrs["epsilon"])


WRITERS: dict[str, Write] = {
    "batch_norm": _batch_norm,
    "softmax": simple("Softmax", "axis"),
}
