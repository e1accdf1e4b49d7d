"""Concatenations of very many values become concatenations of concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Builder, Network, Node, rewrite

MOST = 64
"""Values that one kernel joins. Each element asks for its part, one after the other."""


def split_joins(net: Network) -> Network:
    """Bound the parts of a concatenation, however many the network has.

    rewrite (for parts of at most `MOST` values):
        concat(a, b, ..., y, z)  ->  concat(concat(a, b, ...), ..., concat(..., y, z))
    """
    if all(n.op != "concat" or len(n.inputs) <= MOST for n in net.nodes):
        return net
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op != "concat" or len(inputs) <= MOST:
        return None
    parts: Sequence[str] = inputs
    while len(parts) > MOST:
        cuts = [parts[i : i + MOST] for i in range(0, len(parts), MOST)]
        parts = [c[0] if len(c) == 1 else b.op("concat", *c, **node.attrs) for c in cuts]
    return b.op("concat", *parts, name=node.name, **node.attrs)
