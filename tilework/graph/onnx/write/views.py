"""Operators that rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _reshape(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    shape = w.constant(f"{out}_shape", np.asarray(node.attrs["shape"], np.int64))
    w.add("Reshape", [*inputs, shape], out)


def _pad(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    pads = w.constant(f"{out}_pads", np.asarray([*a["before"], *a["after"]], np.int64))
    dtype = numpy_dtype(w.net.types[node.name].dtype)
    value = w.constant(f"{out}_value", np.asarray(a["value"], dtype))
    w.add("Pad", [*inputs, pads, value], out)


def _pad_self(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    pads = w.constant(f"{out}_pads", np.asarray([*a["before"], *a["after"]], np.int64))
    w.add("Pad", [*inputs, pads], out, mode=a["mode"])


WRITERS: dict[str, Write] = {
    "reshape": _reshape,
    "transpose": simple("Transpose", "perm"),
    "concat": simple("Concat", "axis"),
    "pad": _pad,
    "pad_self": _pad_self,
}
