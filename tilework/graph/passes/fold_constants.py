"""Evaluate at compile time what depends on constants alone."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, keep, node_type, rewrite
from tilework.graph.operators import OPERATORS
from tilework.te.dtypes import numpy_dtype


def fold_constants(net: Network) -> Network:
    """Replace operators of constants by their values.

    rewrite:
        op(c, d)  ->  the constant op(c, d)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        other_layout = node.attrs.get("layout", "NHWC") != "NHWC" or "groups" in node.attrs
        view = node.op == "reshape"
        later = OPERATORS[node.op].lower is None and not view  # other passes replace it
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

    types = {v: b.types[v] for v in inputs}
    same = Node(node.op, inputs, node.name, node.attrs)
    dtype = node_type(same, types).dtype
    dag, names = lower_nodes([same], types, frozenset(), dtype)
    values = dict(zip(inputs, arrays, strict=True))
    return evaluate(dag, [values[n] for n in names])[0].astype(numpy_dtype(dtype))
