"""What is known of scales and zero points at compile time is computed then."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilework.dtypes import integer_range
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.quantized import QUANTIZED
from tilework.graph.passes._quantised import plain_scales

_ZERO = {"quantize": 2, "dequantize": 2, "requantize": 3}
"""Which operand is the zero point."""
_FEW = 1 << 16
"""Numbers of a constant that are looked at."""
_FITS = 2.0**30
"""A number of this size, rounded, and a zero point are within 32 bits."""


def settle_scales(net: Network) -> Network:
    """Compute what operators of quantised numbers make of constants; the last pass.

    Every bit stays. What several operators read is stored as it was quantised, and dequantised by
    each of them.

    rewrite:
        quantize(x, scale, zero)    ->  quantize(x, scale, float32(zero), 1 / scale; of); int32
                                        if it fits: sums of dequantised numbers have limits
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
        again = b.op(node.op, *node.inputs, name=value, **node.attrs)
        largest[again] = largest[value]
        return again

    copied: dict[str, Node] = {}
    largest: dict[str, float] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        inputs = tuple([own(b, v) for v in inputs])
        if node.op not in _ZERO:
            y = b.keep(node, inputs)
            largest[y] = _largest(b, node, inputs, largest)
            return y
        y = _settled(b, node, inputs, largest.get(inputs[0], math.inf))
        largest[y] = _largest(b, node, inputs, largest)
        if node.op == "dequantize" and b.types[inputs[0]].dtype in QUANTIZED:
            copied[y] = b.producer[y]
        return y

    return rewrite(net, rule)


def _settled(b: Builder, node: Node, inputs: tuple[str, ...], largest: float) -> str:
    """The node with what is known, of numbers that are at most so large."""
    at = _ZERO[node.op]
    zero = b.constants.get(inputs[at])
    if zero is None or zero.dtype.name not in QUANTIZED:
        return b.keep(node, inputs)
    attrs = dict(node.attrs)
    if node.op != "dequantize":
        attrs["of"] = zero.dtype.name
    scale = b.constants.get(inputs[1])
    plain = node.op == "quantize" and scale is not None and plain_scales(scale)
    if plain and scale is not None and largest <= _FITS * float(scale.min()):
        attrs["fits"] = True
    wide = b.constant(zero.astype("int32" if attrs.get("fits") else "float32"), inputs[at])
    operands = [*inputs[:at], wide]
    if plain and scale is not None:
        operands.append(b.constant(np.float32(1) / scale, inputs[1]))
    return b.op(node.op, *operands, name=node.name, **attrs)


def _largest(b: Builder, node: Node, inputs: Sequence[str], known: dict[str, float]) -> float:
    """What no result of a node is larger than, in magnitude; infinity: nothing is known."""
    if node.op == "dequantize":
        scale, dtype = b.constants.get(inputs[1]), b.types[inputs[0]].dtype
        if scale is None or dtype not in QUANTIZED or not plain_scales(scale):
            return math.inf
        low, high = integer_range(dtype)
        return (high - low) * float(scale.max())
    if node.op == "relu":
        return known.get(inputs[0], math.inf)
    if node.op not in ("add", "multiply"):
        return math.inf
    a, b_ = (_magnitude(b, v, known) for v in inputs)
    return a + b_ if node.op == "add" else a * b_


def _magnitude(b: Builder, value: str, known: dict[str, float]) -> float:
    numbers = b.constants.get(value)
    if numbers is None or numbers.size > _FEW:
        return known.get(value, math.inf)
    return float(np.abs(numbers).max(initial=0)) if numbers.dtype == np.float32 else math.inf
