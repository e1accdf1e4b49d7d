"""Products of two computed operands, as of attention, in pairs of the terms that they sum.

An instruction on pairs takes neighbours in memory of both operands. One has them where what is
summed is its last axis; of the other, pairs are put beside each other first::

    s[h, i, j] = sum over d: q[i, h, d] * k[j, h, d]
               = sum over d, p: q[i, h, d, p] * k'[h, d, j, p]     k' = transpose(reshape(k))
"""

from __future__ import annotations

from string import ascii_letters

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import known_shape
from tilework.index.symbols import symbols_of
from tilework.ops.einsum import Equation, extents, parse

_PAIR = 2
_LEAST_ROWS = 32
"""Rows that multiply each pair, from which on it pays to put them beside each other."""


def pair_products(net: Network) -> Network:
    """Put pairs of a computed matrix beside each other, where products sum over its rows."""

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op != "einsum" or len(inputs) != 2:
            return None
        shapes = [net.types[v].shape for v in node.inputs]
        fit = all(net.types[v].dtype == "float32" for v in node.inputs)
        if not fit or any(v in net.constants for v in node.inputs) or any(map(symbols_of, shapes)):
            return None
        form = parse(node.attrs["equation"])
        size = {n: known_shape((s,))[0] for n, s in extents(form, shapes).items()}
        at = _matrix(form, size)
        if at is None or any(
            tuple(size[n] for n in labels) != shape
            for labels, shape in zip(form.operands, shapes, strict=True)
        ):
            return None
        summed, last = form.operands[1 - at][-1], form.result[-1]
        pair = next(c for c in ascii_letters if c not in str(form))
        halves = size | {summed: size[summed] // _PAIR, pair: _PAIR}
        split = [labels.replace(summed, summed + pair) for labels in form.operands]
        values = [
            b.op("reshape", v, shape=tuple(halves[n] for n in labels))
            for v, labels in zip(inputs, split, strict=True)
        ]
        others = (n for n in form.operands[at] if n not in (summed, last))
        order = "".join((*others, summed, last, pair))
        values[at] = b.op("transpose", values[at], perm=tuple(split[at].index(n) for n in order))
        split[at] = order
        equation = str(Equation(tuple(split), form.result))
        return b.op("einsum", *values, name=node.name, equation=equation)

    return rewrite(net, rule)


def in_pairs(net: Network, node: Node) -> bool:
    """Whether both operands of a product end in the pairs that it sums."""
    if node.op != "einsum" or len(node.inputs) != 2:
        return False
    a, b = parse(node.attrs["equation"]).operands
    ends = [net.types[v].shape[-1:] for v in node.inputs]
    return a[-1:] == b[-1:] and all(end == (_PAIR,) for end in ends)


def _matrix(form: Equation, size: dict[str, int]) -> int | None:
    """The operand that vectors are of, if the sum is over the last axis of the other alone."""
    if any(len(set(labels)) < len(labels) for labels in form.operands) or not form.result:
        return None
    last = form.result[-1]
    holders = [i for i, labels in enumerate(form.operands) if last in labels]
    summed = [n for n in dict.fromkeys("".join(form.operands)) if n not in form.result]
    if len(holders) != 1 or len(summed) != 1:
        return None
    (at,), (one,) = holders, summed
    data, weight = form.operands[1 - at], form.operands[at]
    rows = 1
    for n in data:
        rows *= size[n] if n not in weight else 1
    fit = data[-1] == one and one in weight and size[one] % _PAIR == 0
    return at if fit and rows >= _LEAST_ROWS else None
