"""Shorten chains of reshapes and transposes."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, keep, rewrite
from tilework.graph.operators import Shape


def merge_views(net: Network) -> Network:
    """Merge operators that only rearrange.

    rewrite:
        transpose(transpose(x, p), q)              ->  transpose(x, p o q), or x
        transpose(x) that only moves extents of 1  ->  reshape(x)
        reshape(reshape(x, s), t)                  ->  reshape(x, t), or x where t is its shape
    """
    # new name -> the node as it now stands, so that a chain collapses in one sweep
    current: dict[str, Node] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        if node.op not in ("transpose", "reshape"):
            return keep(b, node, inputs)
        x = inputs[0]
        before = current.get(x)
        op, attrs = node.op, dict(node.attrs)
        if op == "transpose" and before is not None and before.op == "transpose":
            x = before.inputs[0]
            attrs = {"perm": tuple(before.attrs["perm"][p] for p in attrs["perm"])}
        if op == "transpose" and _keeps_order(b.shape(x), attrs["perm"]):
            op, attrs = "reshape", {"shape": tuple(b.shape(x)[p] for p in attrs["perm"])}
        before = current.get(x)
        if op == "reshape" and before is not None and before.op == "reshape":
            x = before.inputs[0]
        if op == "reshape" and tuple(attrs["shape"]) == b.shape(x):
            return x
        name = b.op(op, x, name=node.name, **attrs)
        current[name] = b.nodes[-1]
        return name

    return rewrite(net, rule)


def _keeps_order(shape: Shape, perm: tuple[int, ...]) -> bool:
    moved = [p for p in perm if shape[p] != 1]
    return moved == sorted(moved)
