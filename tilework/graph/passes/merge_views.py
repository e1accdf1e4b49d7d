"""Shorten chains of reshapes and transposes."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import Shape
from tilework.graph.passes.fold_transposes import keeps_order, split_parts


def merge_views(net: Network) -> Network:
    """Merge operators that only rearrange.

    rewrite:
        transpose(transpose(x, p), q)              ->  transpose(x, p o q), or x
        transpose(x) that only moves extents of 1  ->  reshape(x)
        reshape(reshape(x, s), t)                  ->  reshape(x, t), or x where t is its shape
        transpose(reshape(transpose(x))) in the order of x  ->  reshape(x)
    """
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op not in ("transpose", "reshape"):
        return None
    x = inputs[0]
    op, attrs = node.op, dict(node.attrs)
    before = b.node(x, "transpose")
    if op == "transpose" and before is not None:
        x = before.inputs[0]
        attrs = {"perm": tuple(before.attrs["perm"][p] for p in attrs["perm"])}
    if op == "transpose" and keeps_order(b.shape(x), attrs["perm"]):
        op, attrs = "reshape", {"shape": tuple(b.shape(x)[p] for p in attrs["perm"])}
    before = b.node(x, "reshape")
    if op == "transpose" and before is not None:
        first = b.node(before.inputs[0], "transpose")
        if first is not None:
            merged = _merged(b.shape(first.inputs[0]), first.attrs["perm"], b.shape(x))
            if merged is not None and keeps_order(
                merged[0], tuple(merged[1][p] for p in attrs["perm"])
            ):
                shape = tuple(b.shape(x)[p] for p in attrs["perm"])
                x, op, attrs = first.inputs[0], "reshape", {"shape": shape}
    before = b.node(x, "reshape")
    if op == "reshape" and before is not None:
        x = before.inputs[0]
    if op == "reshape" and tuple(attrs["shape"]) == b.shape(x):
        return x
    return b.op(op, x, name=node.name, **attrs)


def _merged(shape: Shape, perm: Sequence[int], new: Shape) -> tuple[Shape, list[int]] | None:
    """A reshape and a transpose that are a transpose and a reshape which merges dimensions.

    Args:
        shape: of what is transposed.
        perm: how.
        new: the shape that it gets then.

    Returns:
        The shape that it may get first, and how that is transposed; None where dimensions are
        merged that do not stand together before.
    """
    parts = split_parts(new, [shape[p] for p in perm])
    if parts is None:
        return None
    at, starts = 0, list[int]()
    wide = [d for d, n in enumerate(shape) if n != 1]
    for part in parts:
        own = [p for p in perm[at : at + len(part)] if shape[p] != 1]
        at += len(part)
        first = wide.index(own[0]) if own else len(wide)
        if own != wide[first : first + len(own)]:
            return None
        starts.append(first)
    order = sorted(range(len(new)), key=starts.__getitem__)
    return tuple(new[i] for i in order), [order.index(i) for i in range(len(new))]
