"""Products of data in float with weights of bytes convert the bytes as they multiply."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.base import BYTES
from tilework.graph.operators.packed import large_bytes


def multiply_bytes(net: Network) -> Network:
    """Products read large constants of 8 bits instead of the floats that they stand for.

    rewrite:
        dense(x, dequantize(q, scales, zeros))  ->  dense(x, q - zeros; sums="float32") * scales
        matmul(x, dequantize(q, scales, zeros))     ->  the same

    of constants with a scale for all or for each output channel, of which `integer_products` made
    no product of bytes. A conversion takes two instructions a vector, beside a multiply-add for
    each row: less than floats take to come from memory where rows are few, and next to nothing
    where they are many.
    """
    if not any(n.op == "dequantize" for n in net.nodes):
        return net
    whole: dict[tuple[str, ...], str] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op not in ("dense", "matmul") or "sums" in node.attrs:
            return None
        weights = _weights(b, node, inputs)
        if weights is None:
            return None
        names, turned = weights
        q, scales, zeros = (b.constants[v].T if turned else b.constants[v] for v in names)
        by_channel = scales.size == 1 or scales.shape == (len(q), 1)
        if not by_channel or not np.isfinite(scales).all() or not large_bytes(q.shape):
            return None
        key = (*names, str(turned))
        if key not in whole:
            whole[key] = b.constant(_differences(q, zeros), f"{names[0]}_whole")
        x, y = inputs[0], f"{node.name}_sums"
        if node.attrs.get("transpose_a"):
            x = b.op("transpose", x, perm=(1, 0))
        if (scales == 1).all():
            return b.op("dense", x, whole[key], name=node.name, sums="float32")
        scale = b.constant(scales.reshape(1, -1), f"{node.name}_scale")
        sums = b.op("dense", x, whole[key], name=y, sums="float32")
        return b.op("multiply", sums, scale, name=node.name)

    return rewrite(net, rule)


def _weights(
    b: Builder, node: Node, inputs: tuple[str, ...]
) -> tuple[tuple[str, ...], bool] | None:
    """Numbers, scales and zero points of constant weights, and whether their rows are inputs."""
    value, turned = inputs[1], node.op == "matmul" and not node.attrs.get("transpose_b")
    producer = b.node(value, "transpose", "dequantize")
    if producer is not None and producer.op == "transpose":
        turned = not turned
        producer = b.node(producer.inputs[0], "dequantize")
    if producer is None or any(v not in b.constants for v in producer.inputs):
        return None
    q, _, zeros = (b.constants[v] for v in producer.inputs)
    return (producer.inputs, turned) if q.dtype.name in BYTES and zeros.dtype == q.dtype else None


def _differences(q: NDArray[Any], zeros: NDArray[Any]) -> NDArray[Any]:
    """``q - zeros`` in the narrowest type with a sign that holds all; ``q`` where that is all."""
    if not zeros.any() and q.dtype == np.int8:
        return np.ascontiguousarray(q)
    low, high = int(q.min(initial=0)), int(q.max(initial=0))
    least, most = int(zeros.min()), int(zeros.max())
    wide = np.subtract(q, zeros, dtype=np.int16)
    if least != most:
        low, high, least, most = int(wide.min()), int(wide.max()), 0, 0
    bounds = np.iinfo(np.int8)
    fits = bounds.min <= low - most and high - least <= bounds.max
    return np.ascontiguousarray(wide.astype(np.int8) if fits else wide)
