"""From a group of nodes to tensor expressions: one ComputeDAG per fused call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework import te
from tilework.errors import NetworkError
from tilework.graph.ir import Node, ValueType
from tilework.graph.moves import as_one_stage
from tilework.graph.operators import COMMUTATIVE, OPERATORS, Pattern
from tilework.ops.storage import stored


def lower_nodes(
    nodes: Sequence[Node],
    types: Mapping[str, ValueType],
    constants: frozenset[str],
    dtype: str,
) -> tuple[te.ComputeDAG, tuple[str, ...]]:
    """Declare what a group of nodes computes.

    Args:
        nodes: the group in execution order; the last one is its output.
        types: types of at least all values that the group reads.
        constants: names of values whose layout may be changed at compile time.
        dtype: element type that the output is stored in.

    Returns:
        The DAG, whose placeholders ``p0, p1, ...`` are numbered in order of first use, and the
        value bound to each placeholder.

    Raises:
        NetworkError: an operator that passes should have replaced.
    """
    placeholders: dict[str, te.Tensor] = {}
    inner: dict[str, te.Tensor] = {}

    def tensor(value: str) -> te.Tensor:
        if value in inner:
            return inner[value]
        if value not in placeholders:
            t = types[value]
            placeholders[value] = te.placeholder(t.shape, f"p{len(placeholders)}", t.dtype)
        return placeholders[value]

    for node in nodes:
        values = node.inputs
        if node.op in COMMUTATIVE and values[1] in inner and values[0] not in inner:
            values = values[::-1]  # one form, however the network wrote it
        tensors = [tensor(v) for v in values]
        free = len(values) == 2 and values[1] in constants
        lower = OPERATORS[node.op].lower
        if lower is None:
            raise NetworkError(f"node '{node.name}' ({node.op}) has no computation of its own")
        inner[node.name] = lower(node.attrs, tensors, free)
    output = stored(inner[nodes[-1].name], dtype)
    patterns = [OPERATORS[n.op].pattern for n in nodes]
    if len(nodes) > 1 and max(patterns) == Pattern.INJECTIVE:
        output = as_one_stage(output)
    return te.ComputeDAG([*placeholders.values(), output]), tuple(placeholders)
