"""Products of two computed operands, as of attention, in groups of the terms that they sum.

An instruction on groups takes neighbours in memory of both operands: pairs of bfloat16, fours of
bytes. One has them where what is summed is its last axis; of the other, those of a group are put
beside each other first::

    s[h, i, j] = sum over d: q[i, h, d] * k[j, h, d]
               = sum over d, p: q[i, h, d, p] * k'[h, d, j, p]     k' = transpose(reshape(k))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from string import ascii_letters

from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import Extent, ceil_div, known
from tilework.index.symbols import is_static, range_of, symbols_of
from tilework.ops.einsum import Equation, extents, parse

_PAIR = 2
_LEAST_ROWS = 32
"""Rows that multiply each group, from which on it pays to put its terms beside each other."""


@frozen
class Groups:
    """A product of two operands whose terms can be taken in groups.

    Attributes:
        form: its equation.
        size: the extent of each label.
        at: the operand that vectors are of; the sum is over the last axis of the other.
        terms: of a group.
    """

    form: Equation
    size: dict[str, Extent]
    at: int
    terms: int

    @staticmethod
    def of(net: Network, node: Node, terms: int, fills: bool = False) -> Groups | None:
        """Those of a node; None where it is no such product, or one of few rows.

        Args:
            net: the network.
            node: the product.
            terms: of a group.
            fills: whether zeros may fill a last group; else there are whole groups alone.
        """
        if node.op != "einsum" or len(node.inputs) != 2 or "sums" in node.attrs:
            return None
        shapes = [net.types[v].shape for v in node.inputs]
        if any(v in net.constants for v in node.inputs):
            return None
        form = parse(node.attrs["equation"])
        size = extents(form, shapes)
        at = _matrix(form, size, 1 if fills else terms)
        if at is None or any(
            tuple(size[n] for n in labels) != shape
            for labels, shape in zip(form.operands, shapes, strict=True)
        ):
            return None
        return Groups(form, size, at, terms)

    @property
    def summed(self) -> str:
        """The label that is summed."""
        return self.form.operands[1 - self.at][-1]

    def product(self, b: Builder, inputs: Sequence[str], name: str, **attrs: str) -> str:
        """The product of operands like the node's, in groups."""
        form, summed, last = self.form, self.summed, self.form.result[-1]
        term = next(c for c in ascii_letters if c not in str(form))
        count = ceil_div(self.size[summed], self.terms)
        groups = self.size | {summed: count, term: self.terms}
        short = {summed: count * self.terms - self.size[summed]}
        split = [labels.replace(summed, summed + term) for labels in form.operands]
        values = [
            b.op(
                "reshape",
                _filled(b, v, own, short, free=i != self.at),
                shape=tuple(groups[n] for n in labels),
            )
            for i, (v, own, labels) in enumerate(zip(inputs, form.operands, split, strict=True))
        ]
        others = (n for n in form.operands[self.at] if n not in (summed, last))
        order, own = "".join((*others, summed, last, term)), split[self.at]
        values[self.at] = b.op("transpose", values[self.at], perm=tuple(map(own.index, order)))
        split[self.at] = order
        equation = str(Equation(tuple(split), form.result))
        return b.op("einsum", *values, name=name, equation=equation, **attrs)


def _filled(b: Builder, value: str, labels: str, short: Mapping[str, Extent], free: bool) -> str:
    """A value with as many zeros behind its dimensions as the extents of labels are short of.

    Where they are ``free`` they may be anything: the other factor is zero.
    """
    after = tuple(short.get(n, 0) for n in labels)
    if all(n == 0 for n in after):
        return value
    return b.op("pad", value, before=(0,) * len(labels), after=after, value=0, free=free)


def pair_products(net: Network) -> Network:
    """Put pairs of a computed matrix beside each other, where products sum over its rows."""

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        pairs = Groups.of(net, node, _PAIR)
        types = [net.types[v] for v in node.inputs]
        if pairs is None or any(t.dtype != "float32" or symbols_of(t.shape) for t in types):
            return None
        return pairs.product(b, inputs, node.name)

    return rewrite(net, rule)


def in_pairs(net: Network, node: Node) -> bool:
    """Whether both operands of a product end in the pairs that it sums."""
    if node.op != "einsum" or len(node.inputs) != 2:
        return False
    a, b = parse(node.attrs["equation"]).operands
    ends = [net.types[v].shape[-1:] for v in node.inputs]
    return a[-1:] == b[-1:] and all(end == (_PAIR,) for end in ends)


def _matrix(form: Equation, size: dict[str, Extent], terms: int) -> int | None:
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
    rows = math.prod(range_of(size[n])[1] for n in data if n not in weight)
    whole = terms == 1 or (is_static((size[one],)) and known(size[one]) % terms == 0)
    fit = data[-1] == one and one in weight and whole
    return at if fit and rows >= _LEAST_ROWS else None
