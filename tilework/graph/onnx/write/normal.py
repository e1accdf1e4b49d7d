"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple
from tilework.graph.operators.reductions import axes_of
from tilework.index.extents import known_shape


def _batch_norm(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    rank = len(w.net.types[node.name].shape)
    if node.attrs["axis"] % rank != 1:
        raise NetworkError(f"node '{node.name}': ONNX normalises along dimension 1 only")
    w.add("BatchNormalization", inputs, out, epsilon=node.attrs["epsilon"])


def _normalize(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    shape = w.net.types[node.name].shape
    axes = axes_of(node.attrs, len(shape))
    if node.attrs["center"] and axes == tuple(range(axes[0], len(shape))):
        scale = w.constant(f"{out}_scale", np.ones(known_shape(shape[axes[0] :]), _dtype(w, node)))
        epsilon = node.attrs["epsilon"]
        w.add("LayerNormalization", [*inputs, scale], out, axis=axes[0], epsilon=epsilon)
        return
    x = inputs[0]
    if node.attrs["center"]:
        w.add("ReduceMean", [x], f"{out}_mean", axes=axes)
        w.add("Sub", [x, f"{out}_mean"], f"{out}_centred")
        x = f"{out}_centred"
    w.add("Mul", [x, x], f"{out}_square")
    w.add("ReduceMean", [f"{out}_square"], f"{out}_variance", axes=axes)
    epsilon = w.constant(f"{out}_epsilon", np.asarray(node.attrs["epsilon"], _dtype(w, node)))
    w.add("Add", [f"{out}_variance", epsilon], f"{out}_raised")
    w.add("Sqrt", [f"{out}_raised"], f"{out}_deviation")
    w.add("Div", [x, f"{out}_deviation"], out)


def _group_norm(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """Instance norm of groups: the channels of one, in one dimension with the positions."""
    shape = w.net.types[node.name].shape
    groups, dtype = node.attrs["groups"], _dtype(w, node)
    folded = w.constant(f"{out}_folded", np.asarray([shape[0], groups, -1], np.int64))
    back = w.constant(f"{out}_shape", np.asarray(shape, np.int64))
    ones = w.constant(f"{out}_ones", np.ones(groups, dtype))
    zeros = w.constant(f"{out}_zeros", np.zeros(groups, dtype))
    w.add("Reshape", [inputs[0], folded], f"{out}_groups")
    epsilon = node.attrs["epsilon"]
    w.add(
        "InstanceNormalization", [f"{out}_groups", ones, zeros], f"{out}_normal", epsilon=epsilon
    )
    w.add("Reshape", [f"{out}_normal", back], out)


def _local_response(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    if a["axis"] % len(w.net.types[node.name].shape) != 1:
        raise NetworkError(f"node '{node.name}': ONNX normalises along dimension 1 only")
    w.add("LRN", inputs, out, **{k: a[k] for k in ("size", "alpha", "beta", "bias")})


def _dtype(w: Writer, node: Node) -> np.dtype[Any]:
    return numpy_dtype(w.net.types[node.name].dtype)


WRITERS: dict[str, Write] = {
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "hardmax": simple("Hardmax", "axis"),
    "local_response_norm": _local_response,
    "log_softmax": simple("LogSoftmax", "axis"),
    "normalize": _normalize,
    "softmax": simple("Softmax", "axis"),
}
