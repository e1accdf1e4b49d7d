"""Recognise what rearranges the entries of one dimension alone."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import known


def find_shuffles(net: Network) -> Network:
    """Make one operator of a channel shuffle, so that it may follow the layout around it.

    rewrite (for G groups of C channels, whatever dimensions follow):
        reshape(transpose(reshape(x[N, G*C, ...], [N, G, C, ...]), [0, 2, 1, ...]), [N, C*G, ...])
            ->  shuffle(x; groups=G, axis=1)
    """
    shuffles: dict[str, tuple[str, int, int]] = {}  # last reshape -> input, axis, groups
    for node in net.nodes:
        split = _shuffle(net, node)
        if split is not None:
            shuffles[node.name] = split
    if not shuffles:
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.name not in shuffles:
            return None
        x, axis, groups = shuffles[node.name]
        return b.op("shuffle", b.renamed[x], name=node.name, axis=axis, groups=groups)

    return rewrite(net, rule)


def _shuffle(net: Network, last: Node) -> tuple[str, int, int] | None:
    """The input, the dimension and the number of groups of the shuffle that ends in ``last``."""
    if last.op != "reshape":
        return None
    turn = net.producer.get(last.inputs[0])
    if turn is None or turn.op != "transpose":
        return None
    split = net.producer.get(turn.inputs[0])
    if split is None or split.op != "reshape":
        return None
    x = split.inputs[0]
    shape, apart, perm = net.types[x].shape, net.types[split.name].shape, list(turn.attrs["perm"])
    moved = [d for d, p in enumerate(perm) if d != p]
    if len(moved) != 2 or moved[1] != moved[0] + 1 or net.types[last.name].shape != shape:
        return None
    axis = moved[0]
    whole = (*apart[:axis], apart[axis] * apart[axis + 1], *apart[axis + 2 :])
    return (x, axis, known(apart[axis])) if whole == shape else None
