"""Quantised numbers, written out: ONNX's own operators take scales of one dimension alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.dtypes import integer_range
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer


def _saturated(w: Writer, node: Node, scaled: str, zero: str, out: str) -> None:
    dtype = node.attrs.get("of", w.net.types[node.name].dtype)
    low, high = (
        w.constant(f"{out}_{n}", np.asarray(v, np.float32))
        for n, v in zip(("low", "high"), integer_range(dtype), strict=True)
    )
    w.add("Round", [scaled], f"{out}_whole")
    w.add("Add", [f"{out}_whole", w.cast(zero, "float32", f"{out}_zero")], f"{out}_moved")
    w.add("Clip", [f"{out}_moved", low, high], f"{out}_limited")
    w.cast(f"{out}_limited", dtype, out)


def _quantize(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    x, scale, zero = inputs[:3]
    if node.attrs.get("reciprocal"):
        w.add("Reciprocal", [scale], f"{out}_factor")
        w.add("Mul", [x, f"{out}_factor"], f"{out}_quotient")
    else:
        w.add("Div", [x, scale], f"{out}_quotient")
    _saturated(w, node, f"{out}_quotient", zero, out)


def _dequantize(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    x, scale, zero = inputs
    wide = [w.cast(v, "int32", f"{out}_{n}") for v, n in ((x, "wide"), (zero, "zero"))]
    w.add("Sub", wide, f"{out}_difference")
    w.cast(f"{out}_difference", "float32", f"{out}_real")
    w.add("Mul", [f"{out}_real", scale], out)


def _requantize(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    x, init, scale, zero = inputs
    w.add("Add", [x, init], f"{out}_sum")
    w.add("Mul", [w.cast(f"{out}_sum", "float32", f"{out}_real"), scale], f"{out}_scaled")
    _saturated(w, node, f"{out}_scaled", zero, out)


def _flip_sign(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    signed = w.net.types[node.name].dtype == "int8"
    by = w.constant(f"{out}_by", np.asarray(-128 if signed else 128, np.int32))
    w.add("Add", [w.cast(inputs[0], "int32", f"{out}_wide"), by], f"{out}_moved")
    w.cast(f"{out}_moved", "int8" if signed else "uint8", out)


WRITERS: dict[str, Write] = {
    "dequantize": _dequantize,
    "flip_sign": _flip_sign,
    "quantize": _quantize,
    "requantize": _requantize,
}
