"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    _product(w, node, inputs, out, (0, 1))


def _matmul(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, b = (int(node.attrs.get(k, False)) for k in ("transpose_a", "transpose_b"))
    _product(w, node, inputs, out, (a, b))


def _product(
    w: Writer, node: Node, inputs: Sequence[str], out: str, turned: tuple[int, int]
) -> None:
    """A product of matrices; of whole numbers by ``MatMul``, for engines have no such ``Gemm``."""
    if node.attrs.get("sums") == "float32":
        inputs = [inputs[0], w.cast(inputs[1], "float32", f"{out}_weights")]
    elif "sums" in node.attrs:
        _whole_product(w, inputs, out, turned)
        return
    w.add("Gemm", inputs, out, transA=turned[0], transB=turned[1])


def _whole_product(w: Writer, inputs: Sequence[str], out: str, turned: tuple[int, int]) -> None:
    factors = []
    for i, (x, turn) in enumerate(zip(inputs, turned, strict=True)):
        factors.append(w.cast(x, "int32", f"{out}_factor{i}"))
        if turn:
            w.add("Transpose", factors[-1:], f"{out}_turned{i}", perm=(1, 0))
            factors[-1] = f"{out}_turned{i}"
    w.add("MatMul", factors, out)


WRITERS: dict[str, Write] = {
    "dense": _dense,
    "matmul": _matmul,
    "einsum": simple("Einsum", "equation"),
}
