"""Attention over long sequences: block by block, so that its matrices stay near.

    s = einsum(q, k)        p = softmax(s + mask)        y = einsum(p, v)

``s`` and ``p`` are as large as rows of queries times keys, for each head: too large for any cache
where sequences are long. The calls are made for some rows of one head, from ``q`` to ``y``, before
those of the next. Operands are read and the result is written where they lie. A run repeats the
calls of a head for each, where all is known::

    q  h0 r0 | h1 r0 | ..      the first trip makes r0, r1, .. of h0, the second those of h1
       h0 r1 | h1 r1 | ..

The last block of rows begins earlier where they do not divide, and computes some again. Where a
run says how many rows there are, or keys, it repeats the calls of some rows for all blocks of
them, of a few heads, then of the next. The rows behind the last block, and all of a short
sequence, are made by calls for all heads together, as they would be without blocks::

    q  h0 r0 | h1 r0 | ..      trips: r0, r1, .. of h0; then r0, r1, .. of h1; ..
       h0 r1 | h1 r1 | ..
       h0 .. | h1 .. | ..      the rest of all

Scores that are not long enough for as many calls, but would fill a core's cache for each head, are
made for all rows of a few heads, then of the next: as many calls as without blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tilework import te
from tilework.graph.declare import declare_nodes
from tilework.graph.heads import Axes, followed
from tilework.graph.ir import Network, Node
from tilework.graph.operators.base import ValueType
from tilework.graph.planned import Call, Repeat
from tilework.graph.repeats import Repeated, copy_call
from tilework.index.extents import Extent, known, most, nbytes, shape_text
from tilework.index.slots import Slot
from tilework.index.strides import row_major
from tilework.index.symbols import Symbol, Symbolic, range_of, symbol
from tilework.ops.einsum import parse
from tilework.te.points import exchange_symbols

Group = tuple[Node, ...]
Types = Mapping[str, ValueType]

_NEAR = 1 << 20
"""Bytes, for each thread, that the scores of a block have about: a core's own cache. They are cut
from twice of that on."""

_HEAD = 1 << 17
"""Bytes, for each thread, that the scores of a head have at least: fewer are not worth a call."""

_ROWS = 128
"""Rows of a block at least: each reads all keys and values anew."""


_LONG = 4
"""Times of `_NEAR` that scores of one head may have, at the least, where a run brings lengths:
each block is calls besides those of the rest, which a compile takes a quarter longer for. From
one `_NEAR` for each thread on trips are heads."""

_PARTS = 4
"""Parts of the heads at most where a run brings lengths: each has calls of its own, which are
looked at for each new length, or is a trip, which short sequences make in vain."""


class Attention(NamedTuple):
    """Groups of calls from queries to values.

    Attributes:
        groups: products of queries and keys first, of probabilities and values last.
        axes: of each value that they read or make.
        copied: those in memory of the caller's, or constants.
        heads: how many there are; 1 where none are told apart.
        rows: of queries.
        block: rows of a block.
        together: heads that share the calls of a block.
        by_head: whether trips are heads; else rows, and the rest is made for all heads.
    """

    groups: tuple[Group, ...]
    axes: dict[str, Axes]
    copied: frozenset[str]
    heads: int
    rows: Extent
    block: Extent
    together: int
    by_head: bool

    @property
    def output(self) -> str:
        """What the last group makes."""
        return self.groups[-1][-1].name


class _Block(NamedTuple):
    """Some rows of some heads: how many, and which is the first; see also `Call`."""

    heads: int
    head: Extent
    rows: Extent
    row: Extent
    repeat: Repeat | None = None
    within: Mapping[Symbol, Symbol] = {}


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
        if copied and not isinstance(one.rows, int):  # short sequences are not worth it
            if one.by_head or any(one.axes[v].rows is not None for v in copied):
                continue
            axes = {v: Axes(None, a.rows) for v, a in one.axes.items()}
            one, copied = one._replace(axes=axes, heads=1, together=1), frozenset()
        if all(2 * _bytes(types[v]) < _bytes(types[node.inputs[0]]) for v in copied):
            out |= {g[-1].name: one._replace(copied=copied) for g in chain}
    return out


def _bytes(kind: ValueType) -> int:
    """Of floats, as scores have them, at the most; of others 0."""
    floats = kind.dtype in ("float32", "bfloat16")
    return most(nbytes(kind.shape, "float32")) if floats else 0


def _chain(net: Network, last: Group, producers: Mapping[str, Group]) -> tuple[Group, ...]:
    """The groups from a product to another one, each of which reads the one before; or none."""
    chain = [last]
    while True:
        read = chain[0][0].inputs
        group = producers.get(read[0]) if read else None
        if group is None or not net.alone(read[0]):
            return ()
        chain.insert(0, group)
        if group[0].op == "einsum":
            between = [n for g in (*chain[1:-1], group[1:]) for n in g if n.op != "reshape"]
            return tuple(chain) if between else ()


def _cut(
    groups: tuple[Group, ...], types: Mapping[str, ValueType], threads: int
) -> Attention | None:
    """How to compute some groups in blocks; None where heads and rows do not go through them."""
    node = groups[-1][0]
    form = parse(node.attrs["equation"])
    shape, there = (types[v].shape for v in (node.inputs[0], node.inputs[-1]))
    scores, values = form.operands[0], form.operands[-1]
    if len(form.operands) != 2 or len(set(scores)) < len(scores):
        return None
    size, all_bytes = dict(zip(scores, shape, strict=True)), _bytes(types[node.inputs[0]])
    numbers = {n: number for n, number in size.items() if isinstance(number, int)}
    static = len(numbers) == len(size)
    kept = [n for n in scores if n in form.result]
    heads = [
        n for n in kept
        if n in values and n in numbers and there[values.index(n)] == numbers[n]
        and not (static and all_bytes < _HEAD * threads * numbers[n])
    ]  # fmt: skip
    rows = [n for n in kept if n not in values]
    if not rows or (static and not heads):
        return None
    head = max(heads, key=lambda n: numbers[n], default="")
    row = max(rows, key=lambda n: most(size[n]))
    count, length = numbers.get(head, 1), most(size[row])
    each = all_bytes // (count * length)
    equal = [n for n in range(1, count + 1) if not count % n]
    few = next(n for n in equal if n * _PARTS >= count)
    keys = math.prod(most(n) for name, n in size.items() if name not in form.result)
    block: Extent = _ROWS
    together, by_head = few, True
    if static:
        block, together = min(max(_ROWS, _NEAR * threads // each // 32 * 32), length), 1
    elif length > _ROWS and 4 * length * keys >= _LONG * _NEAR:
        near, by_head = _NEAR * threads // (_ROWS * each), False
        together = max(n for n in equal if n <= max(near, few))
    elif few < count and 4 * length * keys >= _NEAR * threads:
        block = size[row]
    else:
        return None
    last = Axes(form.result.index(head) if head else None, form.result.index(row))
    axes = followed([n for group in groups for n in group], last, count, types)
    if axes is None:
        return None
    return Attention(groups, axes, frozenset(), count, size[row], block, together, by_head)


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
    factors: Mapping[str, Callable[[te.Tensor], te.Tensor]],
) -> Repeated:
    """The calls for all blocks, what they read and make, and where that lies.

    Args:
        types: of all values.
        views: those of them that are others' in another shape.
        constants: of the network.
        factors: as `declare_nodes` has them.
    """
    out = Repeated([], {}, {}, {}, {})
    copies = {v: f"{one.output}/{v}" for v in sorted(one.copied)}
    for value, copy in copies.items():
        out.calls.append(copy_call(value, copy, types[value]))
        out.values[copy] = types[value]
    inner = {group[-1].name for group in one.groups[:-1]}
    for number, block in enumerate(_blocks(one)):
        part = {v: _part(types[v], axes, block) for v, axes in one.axes.items()}

        def named(
            value: str, number: int = number, block: _Block = block, part: Types = part
        ) -> str:
            axes = one.axes[value]
            if axes == Axes(None, None):
                return value
            name = f"{one.output}/{number}/{value}"
            out.values[name] = part[value]
            if value not in inner:
                strides = row_major(types[value].shape)
                away = 0 if axes.heads is None else block.head * axes.each * strides[axes.heads]
                away += 0 if axes.rows is None else block.row * strides[axes.rows]
                out.slots[name] = Slot(copies.get(value, views.get(value, value)), away, strides)
            return name

        for group in one.groups:
            result = group[-1].name
            if group[0].op == "reshape":
                source = named(group[0].inputs[0])
                out.views[named(result)] = out.views.get(source, source)
                continue
            dag, inputs = declare_nodes(
                group, {**types, **part}, constants, part[result].dtype, factors
            )
            if block.within:
                dag = exchange_symbols(block.within).dag(dag)
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
                    block.repeat,
                    block.within,
                )
            )
    return out


def _blocks(one: Attention) -> list[_Block]:
    """The blocks whose calls stand in the plan, in order."""
    if one.by_head:
        repeat, head = _repeat(one.heads // one.together, one.output), one.together
        starts = [0]
        if one.block != one.rows:
            rows, block = known(one.rows), known(one.block)
            starts = [min(n, rows - block) for n in range(0, rows, block)]
        return [_Block(head, repeat.trip * head, one.block, n, repeat) for n in starts]
    least = min(range_of(one.rows)[0], 1)  # of the rest
    trips = (one.rows - least) // one.block
    within = _longer(one.rows, known(one.block) + least)
    out = []
    for head in range(0, one.heads, one.together):
        repeat = _repeat(trips, f"{one.output}/{head}")
        row = repeat.trip * one.block
        out.append(_Block(one.together, head, one.block, row, repeat, within))
    done = trips * one.block
    return [*out, _Block(one.heads, 0, one.rows - done, done)]


def _longer(rows: Extent, low: int) -> dict[Symbol, Symbol]:
    """The symbol that rows are, where they are that many at the least."""
    if (
        not isinstance(rows, Symbolic)
        or len(rows.symbols) > 1
        or rows != Symbolic.of({rows.symbols: 1})
    ):
        return {}
    (one,) = rows.symbols
    typicals = tuple(n for n in one.typicals if n >= low) or (one.high,)
    return {one: Symbol(one.name, low, one.high, typicals)}


def _repeat(trips: Extent, name: str) -> Repeat:
    return Repeat(trips, symbol(f"trip of {name}", 0, most(trips) - 1))


def _part(kind: ValueType, axes: Axes, block: _Block) -> ValueType:
    shape = list(kind.shape)
    if axes.heads is not None:
        shape[axes.heads] = block.heads * axes.each
    if axes.rows is not None:
        shape[axes.rows] = block.rows
    return ValueType(tuple(shape), kind.dtype)
