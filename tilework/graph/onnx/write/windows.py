"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple
from tilework.graph.operators import AVG_POOLS, CONVOLUTIONS, MAX_POOLS, Attrs
from tilework.graph.operators.base import FLOATS
from tilework.graph.operators.transposed import TRANSPOSED
from tilework.graph.operators.windows import LP_POOLS


def _window(a: Attrs) -> dict[str, Any]:
    """What convolutions and max pooling say of their window alike."""
    return {"strides": a["strides"], "pads": a["pads"], "dilations": a["dilation"]}


def _conv(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, kernel = node.attrs, w.net.types[node.inputs[1]].shape[2:]
    if w.net.types[node.name].dtype not in FLOATS:
        raise NetworkError(f"node '{node.name}': a convolution of integers has no ONNX form")
    more = {"output_padding": a["output_padding"]} if node.op in TRANSPOSED else {}
    op = "ConvTranspose" if more else "Conv"
    w.add(op, inputs, out, kernel_shape=kernel, **_window(a), **more, group=a.get("groups", 1))


def _max_pool(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("MaxPool", inputs, out, kernel_shape=node.attrs["kernel"], **_window(node.attrs))


def _lp_pool(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    if max(a["dilation"]) > 1:
        raise NetworkError(f"node '{node.name}': dilated Lp pooling is not in the written opset")
    how = {key: a[key] for key in ("strides", "pads", "p")}
    w.add("LpPool", inputs, out, kernel_shape=a["kernel"], **how)


def _avg_pool(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    if "surplus" in a or "dilation" in a:
        raise NetworkError(f"node '{node.name}': this pooling is not in the written opset")
    how = {key: a[key] for key in ("strides", "pads")}
    pads = int(a["count_include_pad"])
    w.add("AveragePool", inputs, out, kernel_shape=a["kernel"], **how, count_include_pad=pads)


WRITERS: dict[str, Write] = {
    **dict.fromkeys((*CONVOLUTIONS, *TRANSPOSED), _conv),
    **dict.fromkeys(MAX_POOLS, _max_pool),
    **dict.fromkeys(LP_POOLS, _lp_pool),
    **dict.fromkeys(AVG_POOLS, _avg_pool),
    "global_avg_pool": simple("GlobalAveragePool"),
}
