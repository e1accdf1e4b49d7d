"""Evaluate at compile time what depends on constants alone."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, keep, rewrite
from tilework.graph.operators import OPERATORS


def fold_constants(net: Network) -> Network:
    """Replace operators of constants by their values.

    rewrite:
        op(c, d)  ->  the constant op(c, d)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        other_layout = node.attrs.get("layout", "NHWC") != "NHWC" or "groups" in node.attrs
        later = (
            OPERATORS[node.op].lower is None and node.op != "reshape"
        )  # other passes replace it
        if other_layout or later or any(v not in b.constants for v in inputs):
            return keep(b, node, inputs)
        return b.constant(_evaluate(b, node, inputs), node.name)

    return rewrite(net, rule)


def _evaluate(b: Builder, node: Node, inputs: tuple[str, ...]) -> np.ndarray:
    arrays = [b.constants[v] for v in inputs]
    if node.op == "reshape":
        return arrays[0].reshape(node.attrs["shape"])
    if node.op == "transpose":
        return np.ascontiguousarray(arrays[0].transpose(node.attrs["perm"]))
    from tilework.graph.lower import lower_nodes
    from tilework.te.evaluate import evaluate

    dag, names = lower_nodes([node], {v: b.types[v] for v in node.inputs}, frozenset())
    values = dict(zip(node.inputs, arrays, strict=True))
    return evaluate(dag, [values[n] for n in names])[0]
