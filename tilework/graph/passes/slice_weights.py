"""Parts of a dense layer's result become dense layers of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern, Shape
from tilework.index.extents import Extent, known, known_shape
from tilework.index.symbols import exact_quotient

_PLAIN = tuple(n for n, o in OPERATORS.items() if o.pattern <= Pattern.BROADCAST)
_FARTHEST = 32  # nodes between a dense layer and a slice: each part builds them again


def slice_weights(net: Network) -> Network:
    """Compute slices of a dense layer's result from slices of its weights.

    rewrite:
        slice(dense(x, w))                              ->  dense(x, part of w)
        slice(transpose(reshape(dense(x, w) + c)))      ->  the same of dense(x, part of w) + part

    Only where nobody reads the whole result. Queries, keys and values that one layer computes so
    need no copies; each part is large enough to keep the machine busy.
    """
    sliced: dict[str, bool] = {}  # a value may have thousands of slices

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op == "slice" and all(s == 1 for s in node.attrs["stride"]):
            x = node.inputs[0]
            if x not in sliced:
                sliced[x] = _only_slices(net, x)
            if tuple(node.attrs["size"]) != net.types[x].shape and sliced[x]:
                begin, size = (tuple(node.attrs[k]) for k in ("begin", "size"))
                part = _part(b, inputs[0], begin, size)
                if part is not None:
                    return part
        return None

    return rewrite(net, rule)


def _only_slices(net: Network, value: str) -> bool:
    """Whether slices alone read the value, no more elements than it has, and a dense layer's."""
    readers = net.consumers[value]
    read = sum(math.prod(r.attrs["size"]) for r in readers if r.op == "slice")
    if any(r.op != "slice" for r in readers) or read > math.prod(net.types[value].shape):
        return False
    for _ in range(_FARTHEST):
        node = net.producer.get(value) if value not in net.outputs else None
        if node is None or node.op == "dense":
            return node is not None and node.inputs[1] in net.constants
        sources = [v for v in node.inputs if v not in net.constants]
        if node.op not in (*_PLAIN, "transpose", "reshape") or len(sources) != 1:
            return False
        value = sources[0]
        if net.consumers[value] != (node,):
            return False
    return False


def _part(b: Builder, value: str, begin: Sequence[Extent], size: Sequence[Extent]) -> str | None:
    """The elements of ``value`` from ``begin`` on, or None where they need the whole."""
    shape = b.shape(value)
    if tuple(size) == shape:
        return value
    if value in b.constants:
        where = tuple(slice(i, i + n) for i, n in zip(begin, size, strict=True))
        return b.constant(b.constants[value][where], value)
    node = b.node(value, "dense", "transpose", "reshape", *_PLAIN)
    if node is None:
        return None
    if node.op == "dense":
        if size[0] != shape[0]:
            return None
        weight = b.constants[node.inputs[1]][begin[1] : begin[1] + size[1]]
        return b.op("dense", node.inputs[0], b.constant(weight, node.inputs[1]), **node.attrs)
    if node.op == "transpose":
        perm = node.attrs["perm"]
        order = [perm.index(d) for d in range(len(perm))]
        x = _part(b, node.inputs[0], [begin[d] for d in order], [size[d] for d in order])
        return b.op("transpose", x, perm=perm) if x is not None else None
    if node.op == "reshape":
        box = before_reshape(b.shape(node.inputs[0]), shape, begin, size)
        x = _part(b, node.inputs[0], *box) if box is not None else None
        return b.op("reshape", x, shape=tuple(size)) if x is not None else None
    operands = []
    for operand in node.inputs:
        own = b.shape(operand)
        skip = len(shape) - len(own)
        starts = [i if n != 1 else 0 for i, n in zip(begin[skip:], own, strict=True)]
        counts = [i if n != 1 else 1 for i, n in zip(size[skip:], own, strict=True)]
        x = _part(b, operand, starts, counts)
        if x is None:
            return None
        operands.append(x)
    return b.op(node.op, *operands, **node.attrs)


def before_reshape(
    old: Shape, new: Shape, begin: Sequence[Extent], size: Sequence[Extent]
) -> tuple[list[Extent], list[Extent]] | None:
    """The box of ``old`` that a box of ``new`` is a reshaped form of, or None."""
    starts: list[Extent] = [0] * len(old)
    counts = list(old)
    i = j = 0
    while i < len(old) and j < len(new):
        first_i, first_j = i, j
        a, c = old[i], new[j]
        i, j = i + 1, j + 1
        while a != c:
            if _shorter(a, c):
                a, i = a * old[i], i + 1
            else:
                c, j = c * new[j], j + 1
        span = _run(new[first_j:j], begin[first_j:j], size[first_j:j])
        box = _box_of(old[first_i:i], *span) if span is not None else None
        if box is None:
            return None
        starts[first_i:i], counts[first_i:i] = box
    return starts, counts


def _shorter(a: Extent, b: Extent) -> bool:
    """Which of two products of extents, all of the same elements, needs another factor."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if exact_quotient(b, a) is not None:
        return True
    return exact_quotient(a, b) is None and a < b


def _run(
    shape: Sequence[Extent], begin: Sequence[Extent], size: Sequence[Extent]
) -> tuple[Extent, Extent] | None:
    """First element and number of elements of a box that is contiguous, or None."""
    first: Extent = 0
    count: Extent = 1
    for extent, at, n in zip(shape, begin, size, strict=True):
        if n != extent and count != 1:
            return None
        first, count = first * extent + at, count * n
    return first, count


def _box_of(
    shape: Sequence[Extent], first: Extent, count: Extent
) -> tuple[Sequence[Extent], Sequence[Extent]] | None:
    """The box of ``shape`` that holds so many elements from ``first`` on, or None."""
    if first == 0 and count == math.prod(shape):
        return [0] * len(shape), shape
    return _box(known_shape(shape), known(first), known(count))


def _box(shape: Sequence[int], first: int, count: int) -> tuple[list[int], list[int]] | None:
    """The same of numbers."""
    starts, counts = [0] * len(shape), list(shape)
    rest = math.prod(shape)
    for d, extent in enumerate(shape):
        rest //= extent
        starts[d], counts[d] = first // rest, max(count // rest, 1)
        if count >= rest:
            whole = first % rest == 0 and count % rest == 0
            return (starts, counts) if whole and starts[d] + counts[d] <= extent else None
        first %= rest
        if first + count > rest:
            return None
    return None
