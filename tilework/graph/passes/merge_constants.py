"""Merge chains of additions, or multiplications, of constants."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import NARROW_FLOATS
from tilework.graph.ir import Builder, Network, Node, keep, rewrite


def merge_constants(net: Network) -> Network:
    """One constant instead of several.

    rewrite:
        (x + a) + b  ->  x + (a + b)
        (x * a) * b  ->  x * (a * b)
    """
    current: dict[str, Node] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        if (
            node.op not in ("add", "multiply")
            or inputs[1] not in b.constants
            or (b.types[inputs[1]].dtype in ("float16", "bfloat16"))
        ):
            return keep(b, node, inputs)
        x, c = inputs
        inner = current.get(x)
        alone = len(net.consumers[node.inputs[0]]) == 1 and node.inputs[0] not in net.outputs
        narrow = b.types[c].dtype in NARROW_FLOATS  # these would be rounded twice
        if inner is not None and inner.op == node.op and alone and not narrow:
            x = inner.inputs[0]
            merge = np.add if node.op == "add" else np.multiply
            first, second = b.constants[inner.inputs[1]], b.constants[c]
            wide = np.float64 if second.dtype.kind == "f" else second.dtype
            c = b.constant(merge(first, second, dtype=wide).astype(second.dtype), c)
        name = b.op(node.op, x, c, name=node.name)
        current[name] = b.nodes[-1]
        return name

    return rewrite(net, rule)
