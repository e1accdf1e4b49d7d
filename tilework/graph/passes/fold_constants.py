"""Evaluate at compile time what depends on constants alone."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.failures import left_alone
from tilework.graph.ir import Builder, Network, Node, has_symbols, rewrite
from tilework.graph.operators import OPERATORS, infer
from tilework.index.extents import size
from tilework.runtime.content import let_go

_GROWTH = 1 << 20
"""A folded constant may have so many elements more than those that it is computed from."""


def fold_constants(net: Network) -> Network:
    """Replace operators of constants by their values.

    Operators that would turn small constants into a large one stay: it is cheaper to compute. Not
    so packed weights that no product reads (`multiply_packed`).

    rewrite:
        op(c, d)  ->  the constant op(c, d)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        other_layout = node.attrs.get("layout", "NHWC") != "NHWC" or "groups" in node.attrs
        later = OPERATORS[node.op].declare is None and node.op != "reshape"  # for other passes
        if other_layout or later or not inputs or any(v not in b.constants for v in inputs):
            return None
        if has_symbols(node.attrs):
            return None
        result = infer(node.op, [b.types[v] for v in inputs], node.attrs)
        if node.op != "unpack" and size(result.shape) > _GROWTH + sum(
            b.constants[v].size for v in inputs
        ):
            return None
        try:
            value = _evaluate(b, node, inputs, result.dtype)
            for v in inputs if node.op != "reshape" else ():
                let_go(b.constants[v])
            return b.constant(value, node.name)
        except Exception as e:  # it is computed when the network runs
            left_alone(f"evaluating node '{node.name}' ({node.op}) of constants", e)
            return None

    return rewrite(net, rule)


def _evaluate(b: Builder, node: Node, inputs: tuple[str, ...], dtype: str) -> np.ndarray:
    arrays = [b.constants[v] for v in inputs]
    if node.op == "reshape":
        return arrays[0].reshape(node.attrs["shape"])
    if node.op == "transpose":
        return np.ascontiguousarray(arrays[0].transpose(node.attrs["perm"]))
    from tilework.graph.declare import declare_nodes
    from tilework.te.evaluate import evaluate

    alone = Node(node.op, inputs, node.name, node.attrs)
    dag, names = declare_nodes([alone], {v: b.types[v] for v in inputs}, frozenset(), dtype)
    return evaluate(dag, [b.constants[n] for n in names])[0].astype(numpy_dtype(dtype))
