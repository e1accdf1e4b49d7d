"""Sequences and optional values that are known when a file is read: lists, as it is visited."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.graph.onnx.branches import Visitor, visit_nested
from tilework.graph.onnx.context import Unsupported, attributes, optional
from tilework.graph.onnx.convert.slices import along, normal
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.scopes import Computed, Listed, Meaning, Scopes
from tilework.index.extents import known


def joined(c: Scopes, items: Sequence[Meaning], axis: int, stacked: bool, name: str) -> Meaning:
    """Tensors joined along a dimension, or along a new one.

    Raises:
        Unsupported: there are none, or they do not fit.
    """
    if not items:
        raise Unsupported("there is nothing to join")
    arrays = [i for i in items if isinstance(i, np.ndarray)]
    if len(arrays) == len(items):
        return np.stack(arrays, axis) if stacked else np.concatenate(arrays, axis)
    values = [c.known_value(i) for i in items]
    shapes = [c.b.shape(v) for v in values]
    axis = normal(axis, len(shapes[0]) + stacked)
    if stacked:
        if len(set(shapes)) > 1:
            raise Unsupported("what it stacks has different shapes")
        shape = (*shapes[0][:axis], 1, *shapes[0][axis:])
        values = [c.op("reshape", v, shape=shape) for v in values]
    value = values[0] if len(values) == 1 else c.op("concat", *values, name=name, axis=axis)
    sources = (s for i in items if isinstance(i, Computed) for s in i.sources)
    return Computed(value, tuple(dict.fromkeys(sources)))


def part(c: Scopes, name: str, axis: int, begin: int, size: int, label: str) -> Meaning:
    """Neighbouring entries of one dimension of a tensor."""
    if name in c.constants:
        return c.constants[name].take(range(begin, begin + size), axis)
    value = along(c, c.value(name), axis, begin, size, label)
    return Computed(value, c.sources_of([name]))


def entry(c: Scopes, name: str, axis: int, at: int, label: str) -> Meaning:
    """One entry of a dimension of a tensor, without the dimension."""
    if name in c.constants:
        return np.asarray(c.constants[name].take(at, axis))
    piece = part(c, name, axis, at, 1, label)
    assert isinstance(piece, Computed)
    shape = c.b.shape(piece.value)
    value = c.op("reshape", piece.value, name=label, shape=shape[:axis] + shape[axis + 1 :])
    return Computed(value, piece.sources)


def _items(c: Scopes, name: str) -> tuple[Meaning, ...]:
    listed = c.lists.get(name)
    if listed is None or listed.items is None:
        raise Unsupported(f"'{name}' is no sequence that is known when the file is read")
    return listed.items


def _place(c: Scopes, name: str, length: int) -> int:
    at = int(c.array(name, "the position").item())
    if not -length <= at < length:
        raise Unsupported(f"position {at} of a sequence of {length}")
    return at % length


def _construct(c: Scopes, node: NodeProto) -> None:
    c.assign(node, [Listed(tuple(c.meaning(i) for i in node.input))])


def _empty(c: Scopes, node: NodeProto) -> None:
    c.assign(node, [Listed(())])


def _at(c: Scopes, node: NodeProto) -> None:
    items = _items(c, node.input[0])
    c.assign(node, [items[_place(c, node.input[1], len(items))]])


def _insert(c: Scopes, node: NodeProto) -> None:
    items = _items(c, node.input[0])
    at = len(items)
    if optional(node, 2) and int(c.array(node.input[2], "the position").item()) != at:
        at = _place(c, node.input[2], at)
    c.assign(node, [Listed((*items[:at], c.meaning(node.input[1]), *items[at:]))])


def _erase(c: Scopes, node: NodeProto) -> None:
    items = _items(c, node.input[0])
    at = _place(c, node.input[1], len(items)) if optional(node, 1) else len(items) - 1
    if not items:
        raise Unsupported("it takes an element out of a sequence without any")
    c.assign(node, [Listed(items[:at] + items[at + 1 :])])


def _length(c: Scopes, node: NodeProto) -> None:
    c.assign(node, [np.asarray(len(_items(c, node.input[0])), np.int64)])


def _concat(c: Scopes, node: NodeProto) -> None:
    a = attributes(node)
    items = _items(c, node.input[0])
    c.assign(node, [joined(c, items, a["axis"], bool(a.get("new_axis", 0)), node.output[0])])


def _split(c: Scopes, node: NodeProto) -> None:
    a, x, label = attributes(node), node.input[0], node.output[0]
    axis = normal(a.get("axis", 0), c.rank(x))
    extent = known(c.shape(x)[axis])
    if not optional(node, 1):
        if a.get("keepdims", 1):
            pieces = [part(c, x, axis, i, 1, label) for i in range(extent)]
        else:
            pieces = [entry(c, x, axis, i, label) for i in range(extent)]
        c.assign(node, [Listed(tuple(pieces))])
        return
    split = c.array(node.input[1], "the sizes of its parts")
    sizes = [int(n) for n in split.reshape(-1)]
    if split.ndim == 0:
        (width,) = sizes
        if width < 1:
            raise Unsupported(f"parts of {width} make no sense")
        sizes = [min(width, extent - i) for i in range(0, extent, width)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise Unsupported(f"its parts {sizes} do not make up extent {extent}")
    starts = np.cumsum([0, *sizes])
    parts = zip(starts, sizes, strict=False)
    c.assign(node, [Listed(tuple(part(c, x, axis, int(i), n, label) for i, n in parts))])


def _map(c: Scopes, node: NodeProto) -> None:
    """The body's nodes for each element."""
    graph = attributes(node)["body"]
    count = len(_items(c, node.input[0]))
    collected: list[list[Meaning | None]] = [[] for _ in node.output]
    for i in range(count):
        given = {}
        for inner, name in zip(graph.input, node.input, strict=True):
            items = c.lists[name].items if name in c.lists else None
            if items is not None and len(items) != count:
                raise Unsupported("its sequences have different lengths")
            given[inner.name] = c.meaning(name) if items is None else items[i]
        for results, result in zip(collected, visit_nested(c, graph, given), strict=False):
            results.append(result)
    known = [tuple(m for m in results if m is not None) for results in collected]
    c.assign(node, [Listed(k) if len(k) == count else None for k in known])


def _optional(c: Scopes, node: NodeProto) -> None:
    c.assign(node, [c.meaning(node.input[0]) if optional(node, 0) else Listed(None)])


def _absent(c: Scopes, node: NodeProto) -> bool:
    name = optional(node, 0)
    return not name or (name in c.lists and c.lists[name].items is None)


def _has_element(c: Scopes, node: NodeProto) -> None:
    c.assign(node, [np.asarray(not _absent(c, node))])


def _get_element(c: Scopes, node: NodeProto) -> None:
    if _absent(c, node):
        raise Unsupported("the optional value is not there")
    c.assign(node, [c.meaning(node.input[0])])


VISITORS: dict[str, Visitor] = {
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SequenceMap": _map,
    "SplitToSequence": _split,
}
