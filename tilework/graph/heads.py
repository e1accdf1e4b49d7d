"""Heads and rows of queries, followed from what attention makes to what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilework.graph.ir import Node
from tilework.graph.operators import OPERATORS
from tilework.graph.operators.base import Pattern, ValueType
from tilework.index.extents import Extent, size
from tilework.ops.einsum import parse


class Axes(NamedTuple):
    """Dimensions of a value that are heads and rows of queries; None: it is the same for all.

    ``each`` positions in a row are a head's: queries that share keys, where these are grouped.
    """

    heads: int | None
    rows: int | None
    each: int = 1

    def at(self, heads: int | None, rows: int | None) -> Axes:
        """The same in other dimensions."""
        return Axes(heads, rows, 1 if heads is None else self.each)


def followed(
    nodes: Iterable[Node], last: Axes, heads: int, types: Mapping[str, ValueType]
) -> dict[str, Axes] | None:
    """Axes of all values that nodes in order read or make; None where they are not kept apart.

    Args:
        nodes: in execution order.
        last: axes of what the last one makes.
        heads: how many there are.
        types: of all values.
    """
    *_, end = producers = {n.name: n for n in nodes}
    axes: dict[str, Axes] = {}
    demands = [(end, last)]
    while demands:
        value, wanted = demands.pop()
        if axes.setdefault(value, wanted) != wanted:
            return None
        if value in producers:
            given = _of_inputs(producers[value], wanted, heads, types)
            if given is None:
                return None
            demands += zip(producers[value].inputs, given, strict=True)
    return axes


def _of_inputs(
    node: Node, axes: Axes, heads: int, types: Mapping[str, ValueType]
) -> list[Axes] | None:
    """Axes of a node's inputs by those of its output; None if it does not keep them apart."""
    shapes = [types[v].shape for v in node.inputs]
    if node.op == "einsum":
        form = parse(node.attrs["equation"])
        labels = [None if d is None else form.result[d] for d in axes[:2]]
        out = []
        for text, shape in zip(form.operands, shapes, strict=True):
            near = axes.at(*(text.index(n) if n and n in text else None for n in labels))
            spread = any(d is not None and shape[d] == 1 for d in near[:2])
            if spread or len(set(text)) < len(text):
                return None
            out.append(near)
        return out
    if node.op == "reshape":
        seen = _seen(axes, heads, shapes[0], types[node.name].shape)
        return None if seen is None else [seen]
    if node.op == "softmax":
        return None if node.attrs["axis"] % len(shapes[0]) in axes[:2] else [axes]
    fixed = any(node.attrs.get(name) is not None for name in ("axis", "shape"))
    if OPERATORS[node.op].pattern > Pattern.BROADCAST or fixed:
        return None
    rank = len(types[node.name].shape)
    out = []
    for shape in shapes:
        less = rank - len(shape)
        kept = [None if d is None or d < less or shape[d - less] == 1 else d for d in axes[:2]]
        out.append(axes.at(*(None if d is None else d - less for d in kept)))
    return out


def _seen(axes: Axes, heads: int, shape: Sequence[Extent], seen: Sequence[Extent]) -> Axes | None:
    """Axes of a value of a shape by those that it has ``seen`` in another one.

    Rows are a dimension of both, behind as many elements. That of heads may be cut into heads and
    others behind them, or be such a cut.
    """
    behind = {size(shape[:i]): i for i, n in enumerate(shape) if n != 1}
    head, row = (None if d is None else behind.get(size(seen[:d])) for d in axes[:2])
    each = 1
    if axes.rows is not None and (row is None or shape[row] != seen[axes.rows]):
        return None
    if axes.heads is not None:
        extent = 0 if head is None else shape[head]
        if not isinstance(extent, int) or extent < heads or extent % heads:
            return None
        each = extent // heads
    return Axes(head, row, each)
