"""What is known of scales and zero points at compile time is computed then."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.quantized import QUANTIZED
from tilework.graph.passes._quantised import plain_scales

_ZERO = {"quantize": 2, "dequantize": 2, "requantize": 3}
"""Which operand is the zero point."""


def settle_scales(net: Network) -> Network:
    """Compute what operators of quantised numbers make of constants; the last pass.

    Every bit stays. What several operators read is stored as it was quantised, and dequantised by
    each of them.

    rewrite:
        quantize(x, scale, zero)    ->  quantize(x, scale, float32(zero), 1 / scale; of)
        requantize(x, ..., zero)    ->  requantize(x, ..., float32(zero); of); int32 if it fits
        dequantize(x, scale, zero)  ->  dequantize(x, scale, float32(zero)), for each reader one
    """
    if not any(n.op in _ZERO for n in net.nodes):
        return net
    taken: set[str] = set()  # results of dequantize that have a reader

    def own(b: Builder, value: str) -> str:
        """A value for one reader more."""
        node = copied.get(value)
        if node is None or value not in taken:
            taken.add(value)
            return value
        return b.op(node.op, *node.inputs, name=value, **node.attrs)

    copied: dict[str, Node] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        inputs = tuple([own(b, v) for v in inputs])
        if node.op not in _ZERO:
            return b.keep(node, inputs)
        y = _settled(b, node, inputs)
        if node.op == "dequantize" and b.types[inputs[0]].dtype in QUANTIZED:
            copied[y] = b.producer[y]
        return y

    return rewrite(net, rule)


def _settled(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    at = _ZERO[node.op]
    zero = b.constants.get(inputs[at])
    if zero is None or zero.dtype.name not in QUANTIZED:
        return b.keep(node, inputs)
    wide = b.constant(zero.astype("int32" if node.attrs.get("fits") else "float32"), inputs[at])
    operands, attrs = [*inputs[:at], wide], dict(node.attrs)
    if node.op != "dequantize":
        attrs["of"] = zero.dtype.name
    scale = b.constants.get(inputs[1])
    if node.op == "quantize" and scale is not None and plain_scales(scale):
        operands.append(b.constant(np.float32(1) / scale, inputs[1]))
    return b.op(node.op, *operands, name=node.name, **attrs)
