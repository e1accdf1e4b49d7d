"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Gemm", _widened(w, node, inputs, out), out, transB=1)


def _widened(w: Writer, node: Node, inputs: Sequence[str], out: str) -> Sequence[str]:
    """Factors in the type that their products are summed in."""
    from onnx import TensorProto

    if "sums" not in node.attrs:
        return inputs
    wide = [f"{out}_factor{i}" for i in range(len(inputs))]
    for x, y in zip(inputs, wide, strict=True):
        w.add("Cast", [x], y, to=TensorProto.INT32)
    return wide


def _matmul(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, b = (int(node.attrs.get(k, False)) for k in ("transpose_a", "transpose_b"))
    w.add("Gemm", _widened(w, node, inputs, out), out, transA=a, transB=b)


WRITERS: dict[str, Write] = {
    "dense": _dense,
    "matmul": _matmul,
    "einsum": simple("Einsum", "equation"),
}
