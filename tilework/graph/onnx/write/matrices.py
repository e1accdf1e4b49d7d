"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer


def _dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Gemm", inputs, out, transB=1)


def _matmul(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, b = (int(node.attrs.get(k, False)) for k in ("transpose_a", "transpose_b"))
    w.add("Gemm", inputs, out, transA=a, transB=b)


def _einsum(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Einsum", inputs, out, equation=node.attrs["equation"])


WRITERS: dict[str, Write] = {
    "dense": _dense,
    "matmul": _matmul,
    "einsum": _einsum,
}
