"""Products that read matrices where they lie: those that indices from data choose.

The experts of a token are matrices of a table, ``W[expert[b], n, k]``. Gathered first, they are
copied for each token, which takes longer than the product; but each is read once, so that the
product may as well find them by the index. A gather therefore shares the group of the product that
is its only reader. Which kinds of machine do so, the target says:
`tilework.target.Target.reads_through_indices`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilework.graph.ir import Network, Node
from tilework.graph.operators.base import ValueType
from tilework.index.extents import Extent
from tilework.ops.einsum import Equation, extents, parse

Group = tuple[Node, ...]

GATHERS = ("take", "gather_nd")
_INDICES = ("int32", "int64")
"""Types of numbers that positions are computed in outside of vectors."""


def chosen_dims(node: Node, types: Mapping[str, ValueType]) -> int | None:
    """How many leading dimensions of a table a gather's indices choose in; None if not leading."""
    if node.op == "take":
        return 1 if node.attrs["axis"] == 0 else None
    if node.op != "gather_nd" or node.attrs["batch_dims"]:
        return None
    depth = types[node.inputs[1]].shape[-1]
    return depth if isinstance(depth, int) else None


def chooses_matrices(
    form: Equation, operand: int, places: int, sizes: Mapping[str, Extent]
) -> bool:
    """Whether a product multiplies whole matrices of an operand, another one at each place.

    Args:
        form: of two operands.
        operand: which of them is gathered.
        places: how many of its dimensions, the first ones, say which matrix.
        sizes: of each label.
    """
    mine, others = form.operands[operand], form.operands[1 - operand]
    if any(len(set(labels)) < len(labels) for labels in form.operands):
        return False
    own = (n for n in mine[places:] if n in form.result and n not in others)
    return set(mine[:places]) <= set(form.result) and any(sizes[n] != 1 for n in own)


def fuse_gathers(net: Network, groups: Sequence[Group]) -> list[Group]:
    """Put gathers of matrices into the groups of the products that read them.

    Args:
        net: the network that the groups partition.
        groups: in execution order; the last node of each is its output.
    """
    gathers = {g[-1].name: g for g in groups if _only_gathers(net, g)}
    gone: set[str] = set()
    out: list[Group] = []
    for group in groups:
        product = next((n for n in group if _reads(net, n, gathers)), None)
        if product is not None:
            group = (*gathers[product.inputs[1]], *group)
            gone.add(product.inputs[1])
        out.append(group)
    return [g for g in out if g[-1].name not in gone]


def _only_gathers(net: Network, group: Group) -> bool:
    """Whether a group is a gather along leading dimensions, perhaps by indices that it casts."""
    node = group[-1]
    if chosen_dims(node, net.types) is None or node.inputs[0] in {n.name for n in group}:
        return False
    numbers = (*(v for n in group[:-1] for v in n.inputs), node.inputs[1])
    casts = all(n.op == "cast" for n in group[:-1])
    return casts and all(net.types[v].dtype in _INDICES for v in numbers)


def _reads(net: Network, node: Node, gathers: Collection[str]) -> bool:
    """Whether a node is a product whose second operand is a gather, which nobody else reads."""
    if node.op != "einsum" or len(node.inputs) != 2 or node.inputs[1] not in gathers:
        return False
    value = node.inputs[1]
    if value == node.inputs[0] or value in net.outputs or len(net.consumers[value]) != 1:
        return False
    gather, form = net.producer[value], parse(node.attrs["equation"])
    depth = chosen_dims(gather, net.types) or 0
    places = len(net.types[value].shape) - len(net.types[gather.inputs[0]].shape) + depth
    sizes = extents(form, [net.types[v].shape for v in node.inputs])
    return chooses_matrices(form, 1, places, sizes)
