"""Merge chains of additions, or multiplications, of constants."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import NARROW_FLOATS
from tilework.graph.ir import Builder, Network, Node, rewrite


def merge_constants(net: Network) -> Network:
    """One constant instead of several.

    rewrite:
        (x + a) + b  ->  x + (a + b)
        (x * a) * b  ->  x * (a * b)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if (
            node.op not in ("add", "multiply")
            or inputs[1] not in b.constants
            or b.types[inputs[1]].dtype in NARROW_FLOATS  # these would be rounded twice
        ):
            return None
        x, c = inputs
        inner = b.node(x, node.op)
        if inner is not None and inner.inputs[1] in b.constants and net.alone(node.inputs[0]):
            x = inner.inputs[0]
            merge = np.add if node.op == "add" else np.multiply
            first, second = b.constants[inner.inputs[1]], b.constants[c]
            wide = np.float64 if second.dtype.kind == "f" else second.dtype
            c = b.constant(merge(first, second, dtype=wide).astype(second.dtype), c)
        return b.op(node.op, x, c, name=node.name)

    return rewrite(net, rule)
