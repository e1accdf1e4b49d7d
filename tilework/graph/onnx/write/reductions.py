"""Reductions, and positions of extrema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer
from tilework.graph.operators.reductions import axes_of
from tilework.ops.reductions import REDUCTIONS


def _reduction(kind: str, w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    op = f"Reduce{kind.title().replace('_', '')}"  # ReduceLogSumExp
    axes = axes_of(node.attrs, len(w.net.types[node.inputs[0]].shape))
    keepdims = int(node.attrs["keepdims"])
    if not axes:
        raise NetworkError(f"node '{node.name}': a reduction over nothing has no ONNX form")
    if op == "ReduceSum":  # the first whose axes became an input
        names = w.constant(f"{out}_axes", np.asarray(axes, np.int64))
        w.add(op, [*inputs, names], out, keepdims=keepdims)
        return
    w.add(op, inputs, out, axes=axes, keepdims=keepdims)


def _position(op: str, w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    how = {"keepdims": int(a["keepdims"]), "select_last_index": int(a.get("last", False))}
    w.add(op, inputs, out, axis=a["axis"], **how)


WRITERS: dict[str, Write] = {
    "argmax": partial(_position, "ArgMax"),
    "argmin": partial(_position, "ArgMin"),
    **{f"reduce_{kind}": partial(_reduction, kind) for kind in REDUCTIONS},
}
