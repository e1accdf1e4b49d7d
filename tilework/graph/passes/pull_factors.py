"""Scalar factors move from the operands of products to their results."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite


def pull_factors(net: Network) -> Network:
    """Multiply a product instead of its operands, where a constant's one element scales them.

    rewrite:
        einsum(a * s, b * t)  ->  einsum(a, b) * (s t)
        matmul(a * s, b)      ->  matmul(a, b) * s

    There the factor is computed on the register tile; before the product it may be a kernel of
    its own, as where attention scales queries and keys by the root of its factor each. Values
    of 16 bits stay as they are: their sums might leave the type's range.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op not in ("einsum", "matmul") or len(inputs) != 2:
            return None
        factor, operands = 1.0, list(inputs)
        for i, value in enumerate(inputs):
            scaled = b.node(value, "multiply")
            if scaled is None or b.shape(scaled.inputs[0]) != b.shape(value):
                continue
            number = b.constants.get(scaled.inputs[1])
            wide = number is not None and number.dtype in (np.float32, np.float64)
            if number is not None and wide and number.size == 1:
                factor *= float(number.reshape(()))
                operands[i] = scaled.inputs[0]
        if operands == list(inputs):
            return None
        y = b.op(node.op, *operands, name=f"{node.name}_plain", **node.attrs)
        rank, dtype = len(b.shape(y)), b.types[y].dtype
        constant = np.full((1,) * rank, factor).astype(dtype)
        return b.op("multiply", y, b.constant(constant, f"{node.name}_factor"), name=node.name)

    return rewrite(net, rule)
