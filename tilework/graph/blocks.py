"""Attention over long sequences: block by block, so that its matrices stay near.

    s = einsum(q, k)        p = softmax(s + mask)        y = einsum(p, v)

``s`` and ``p`` are as large as rows of queries times keys, for each head: too large for any cache
where sequences are long. The calls are made for some rows of one head, from ``q`` to ``y``, before
those of the next; a run repeats the calls of a head for each. Operands are read and the result is
written where they lie:

    q  h0 r0 | h1 r0 | ..      the first trip makes r0, r1, .. of h0, the second those of h1
       h0 r1 | h1 r1 | ..

The last block of rows begins earlier where they do not divide, and computes some again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tilework.graph.declare import declare_nodes
from tilework.graph.ir import Network, Node
from tilework.graph.operators import OPERATORS
from tilework.graph.operators.base import Pattern, ValueType
from tilework.graph.planned import Call, Repeat
from tilework.graph.repeats import Repeated, copy_call
from tilework.index.extents import known, known_shape, nbytes, shape_text
from tilework.index.slots import Slot
from tilework.index.strides import row_major
from tilework.index.symbols import is_static, symbol
from tilework.ops.einsum import parse

Group = tuple[Node, ...]

_NEAR = 1 << 20
"""Bytes, for each thread, that the scores of a block have about: a core's own cache. They are cut
from twice of that on."""

_HEAD = 1 << 17
"""Bytes, for each thread, that the scores of a head have at least: fewer are not worth a call."""

_ROWS = 128
"""Rows of a block at least: each reads all keys and values anew."""


class Axes(NamedTuple):
    """Dimensions of a value that are heads and rows of queries; None: it is the same for all."""

    heads: int | None
    rows: int | None


class Attention(NamedTuple):
    """Groups of calls from queries to values.

    Attributes:
        groups: products of queries and keys first, of probabilities and values last.
        axes: of each value that they read or make.
        copied: those in memory of the caller's, or constants.
        trips: heads.
        rows: of queries.
        block: rows of a block.
    """

    groups: tuple[Group, ...]
    axes: dict[str, Axes]
    copied: frozenset[str]
    trips: int
    rows: int
    block: int

    @property
    def output(self) -> str:
        """What the last group makes."""
        return self.groups[-1][-1].name


def attention(
    net: Network,
    groups: Sequence[Group],
    types: Mapping[str, ValueType],
    outside: Collection[str],
    threads: int,
) -> dict[str, Attention]:
    """What is to be computed in blocks, by the output of each of its groups.

    Args:
        net: the network.
        groups: its nodes, as calls have them.
        types: of its values.
        outside: values in memory of the caller's, or constants.
        threads: of a run.
    """
    producers = {group[-1].name: group for group in groups}
    out: dict[str, Attention] = {}
    for group in groups:
        node = group[0]
        if node.op != "einsum" or _bytes(types[node.inputs[0]]) < 2 * _NEAR * threads:
            continue
        chain = _chain(net, group, producers)
        one = _cut(chain, types, threads) if chain else None
        if one is None or root_of(net, one.output) in outside:
            continue
        near = {v for v, axes in one.axes.items() if axes != Axes(None, None)}
        copied = frozenset(v for v in near if root_of(net, v) in outside)
        if all(2 * _bytes(types[v]) < _bytes(types[node.inputs[0]]) for v in copied):
            out |= {g[-1].name: one._replace(copied=copied) for g in chain}
    return out


def _bytes(kind: ValueType) -> int:
    """Of floats whose number is known; of others 0."""
    if kind.dtype != "float32" or not is_static(kind.shape):
        return 0
    return known(nbytes(kind.shape, kind.dtype))


def _chain(net: Network, last: Group, producers: Mapping[str, Group]) -> tuple[Group, ...]:
    """The groups from a product to another one, each of which reads the one before; or none."""
    chain = [last]
    while True:
        value = chain[0][0].inputs[0]
        group = producers.get(value)
        if group is None or not net.alone(value):
            return ()
        chain.insert(0, group)
        if group[0].op == "einsum":
            return tuple(chain) if len(chain) > 2 or len(group) > 1 else ()


def _cut(
    groups: tuple[Group, ...], types: Mapping[str, ValueType], threads: int
) -> Attention | None:
    """How to compute some groups in blocks; None where heads and rows do not go through them."""
    node = groups[-1][0]
    form, shape = parse(node.attrs["equation"]), types[node.inputs[0]].shape
    scores, values = form.operands[0], form.operands[-1]
    if len(form.operands) != 2 or len(set(scores)) < len(scores):
        return None
    size, all_bytes = (
        dict(zip(scores, known_shape(shape), strict=True)),
        _bytes(types[node.inputs[0]]),
    )
    kept = [n for n in scores if n in form.result]
    heads = [n for n in kept if n in values and all_bytes >= _HEAD * threads * size[n]]
    rows = [n for n in kept if n not in values]
    if not heads or not rows:
        return None
    head, row = (max(names, key=lambda n: size[n]) for names in (heads, rows))
    axes: dict[str, Axes] = {}
    demands = [(groups[-1][-1].name, Axes(form.result.index(head), form.result.index(row)))]
    producers = {n.name: n for group in groups for n in group}
    while demands:
        value, wanted = demands.pop()
        if axes.setdefault(value, wanted) != wanted:
            return None
        if value in producers:
            given = _of_inputs(producers[value], wanted, types)
            if given is None:
                return None
            demands += zip(producers[value].inputs, given, strict=True)
    each = all_bytes // (size[head] * size[row])
    block = min(max(_ROWS, _NEAR * threads // each // 32 * 32), size[row])
    return Attention(groups, axes, frozenset(), size[head], size[row], block)


def _of_inputs(node: Node, axes: Axes, types: Mapping[str, ValueType]) -> list[Axes] | None:
    """Axes of a node's inputs by those of its output; None if it does not keep them apart."""
    if node.op == "einsum":
        form = parse(node.attrs["equation"])
        labels = [None if d is None else form.result[d] for d in axes]
        out = []
        for text, value in zip(form.operands, node.inputs, strict=True):
            axes = Axes(*(text.index(n) if n and n in text else None for n in labels))
            spread = any(d is not None and types[value].shape[d] == 1 for d in axes)
            if spread or len(set(text)) < len(text):
                return None
            out.append(axes)
        return out
    if node.op == "softmax":
        (kind,) = (types[v] for v in node.inputs)
        return None if node.attrs["axis"] % len(kind.shape) in axes else [axes]
    if OPERATORS[node.op].pattern > Pattern.BROADCAST or node.attrs.get("axis") is not None:
        return None
    rank = len(types[node.name].shape)
    out = []
    for value in node.inputs:
        shape = types[value].shape
        near = [None if d is None else d - rank + len(shape) for d in axes]
        out.append(
            Axes(*(d if d is not None and d >= 0 and shape[d] != 1 else None for d in near))
        )
    return out


def root_of(net: Network, value: str) -> str:
    """What a value is, seen in other shapes."""
    while value in net.producer and net.producer[value].op in ("reshape", "bytes_of"):
        value = net.producer[value].inputs[0]
    return value


def in_blocks(
    one: Attention,
    types: Mapping[str, ValueType],
    views: Mapping[str, str],
    constants: frozenset[str],
) -> Repeated:
    """The calls of a head, what they read and make, and where that lies.

    Args:
        types: of all values.
        views: those of them that are others' in another shape.
        constants: of the network.
    """
    trip = symbol(f"trip of {one.output}", 0, one.trips - 1)
    repeat = Repeat(one.trips, trip)
    out = Repeated([], {}, {}, {}, {})
    part = {v: _part(types[v], axes, one.block) for v, axes in one.axes.items()}
    inner = {group[-1].name for group in one.groups[:-1]}
    copies = {v: f"{one.output}/{v}" for v in sorted(one.copied)}
    for value, copy in copies.items():
        out.calls.append(copy_call(value, copy, types[value]))
        out.values[copy] = types[value]
    for number in range(-(-one.rows // one.block)):
        start = min(number * one.block, one.rows - one.block)

        def named(value: str, number: int = number, start: int = start) -> str:
            axes = one.axes[value]
            if axes == Axes(None, None):
                return value
            name = f"{one.output}/{number}/{value}"
            out.values[name] = part[value]
            if value not in inner:
                strides = row_major(types[value].shape)
                away = 0 if axes.heads is None else trip * strides[axes.heads]
                away += 0 if axes.rows is None else start * strides[axes.rows]
                out.slots[name] = Slot(copies.get(value, views.get(value, value)), away, strides)
            return name

        for group in one.groups:
            result = group[-1].name
            dag, inputs = declare_nodes(group, {**types, **part}, constants, "float32")
            ops = "+".join(n.op for n in group)
            desc = f"{ops} {shape_text(part[group[0].inputs[0]].shape)}"
            out.calls.append(
                Call(
                    dag,
                    tuple(map(named, inputs)),
                    named(result),
                    "_".join(n.op for n in group),
                    desc,
                    any(op.reduce_axes for op in dag.compute_ops),
                    repeat,
                )
            )
    return out


def _part(kind: ValueType, axes: Axes, block: int) -> ValueType:
    shape = list(kind.shape)
    if axes.heads is not None:
        shape[axes.heads] = 1
    if axes.rows is not None:
        shape[axes.rows] = block
    return ValueType(tuple(shape), kind.dtype)
