"""Numbers that follow from positions and extents: computed where they are read, in one step."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, Rule, rewrite
from tilework.graph.operators import broadcast
from tilework.index.extents import Extent

_WIDE = ("int32", "int64", "float32", "float64")


def simplify_positions(net: Network) -> Network:
    """Join what is done to numbers in a row, which networks with symbols compute.

    rewrite:
        cast(arange), reshape(arange)         ->  arange of that type, in that shape
        arange + n                            ->  arange from another start
        gather_nd(x, concat(arange, arange))  ->  reshape(x), if it takes all in order
    """
    if all(n.op != "arange" for n in net.nodes):
        return net
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    simplify = _RULES.get(node.op)
    return None if simplify is None else simplify(b, node, inputs)


def _cast(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Of a type that has all of the numbers."""
    numbers = b.node(inputs[0], "arange")
    to = node.attrs["to"]
    if numbers is None or to not in _WIDE or not numbers.attrs["dtype"].startswith("int"):
        return None
    return b.op("arange", name=node.name, **{**numbers.attrs, "dtype": to})


def _reshape(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Among dimensions of extent 1."""
    numbers, shape = b.node(inputs[0], "arange"), tuple(node.attrs["shape"])
    wide = [d for d, n in enumerate(shape) if n != 1]
    if numbers is None or len(wide) > 1:
        return None
    attrs = {**numbers.attrs, "shape": shape, "axis": wide[0] if wide else 0}
    if not wide:
        attrs["step"] = 0
    return b.op("arange", name=node.name, **attrs)


def _add(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Each with the same integer added."""
    for row, more in (inputs, inputs[::-1]):
        numbers, by = b.node(row, "arange"), _number(b, more)
        if numbers is None or by is None or not numbers.attrs["dtype"].startswith("int"):
            continue
        if broadcast((b.shape(row), b.shape(more))) == b.shape(row):
            attrs = {**numbers.attrs, "start": numbers.attrs["start"] + by}
            return b.op("arange", name=node.name, **attrs)
    return None


def _number(b: Builder, value: str) -> Extent | None:
    """The one integer that a value consists of, if it is known or an extent."""
    array = b.constants.get(value)
    if array is not None:
        return int(array.item()) if array.size == 1 and array.dtype.kind == "i" else None
    one = b.node(value, "arange")
    if one is None or any(n != 1 for n in one.attrs["shape"]):
        return None
    start: Extent = one.attrs["start"]
    return start


def _gather(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Each element from its own place, as masks read those of keys."""
    x, positions = inputs
    shape, outer = b.shape(x), b.shape(positions)[:-1]
    joined = b.node(positions, "concat")
    if joined is None or joined.attrs["axis"] != len(outer) or node.attrs["batch_dims"]:
        return None
    if len(joined.inputs) != len(shape):
        return None
    axes = []
    for part, extent in zip(joined.inputs, shape, strict=True):
        if extent == 1:
            continue
        axis = _own_places(b, part, extent)
        if axis is None:
            return None
        axes.append(axis)
    others = (n for d, n in enumerate(outer) if d not in axes)
    if axes != sorted(set(axes)) or any(n != 1 for n in others):
        return None
    return b.op("reshape", x, name=node.name, shape=outer)


def _own_places(b: Builder, value: str, extent: Extent) -> int | None:
    """The dimension along which a value counts from 0 to ``extent``, whatever the others hold."""
    apart = b.node(value, "reshape")
    if apart is not None and b.shape(value) == (*b.shape(apart.inputs[0]), 1):
        value = apart.inputs[0]
    wide = b.node(value, "expand")
    row = b.node(value if wide is None else wide.inputs[0], "arange")
    if row is None or row.attrs["start"] != 0 or row.attrs["step"] != 1:
        return None
    axis: int = row.attrs["axis"]
    return axis if row.attrs["shape"][axis] == extent else None


_RULES: dict[str, Rule] = {
    "add": _add,
    "cast": _cast,
    "gather_nd": _gather,
    "reshape": _reshape,
}
