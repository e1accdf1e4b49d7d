"""Transposes become a matter of how products read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern, Shape
from tilework.index.extents import Extent
from tilework.index.symbols import exact_quotient
from tilework.ops.einsum import Equation, parse


def fold_transposes(net: Network) -> Network:
    """Let products read transposed operands in place, and write transposed results.

    rewrite:
        f(transpose(x), c) with one element in c      ->  transpose(f(x, c))
        reshape(transpose(x)) that splits dimensions  ->  transpose(reshape(x))
        matmul(transpose(a), b)                       ->  matmul(a, b; transpose_a), or back
        einsum(transpose(a), b; "ij,jk->ik")          ->  einsum(a, b; "ji,jk->ik")
        transpose(einsum(a, b; "bij,bjk->bik"))       ->  einsum(a, b; "bij,bjk->ibk")

    The last dimension of a result stays: vectors of it are computed at once. Attention so reads
    and writes its heads where the dense layers around it have them.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        delayed = _delayed(net, b, node, inputs)
        if delayed is not None:
            return delayed
        if node.op == "matmul":
            return _matmul(b, node, inputs)
        if node.op == "einsum":
            return _einsum(b, node, inputs)
        if node.op == "transpose":
            perm = node.attrs["perm"]
            product = b.node(inputs[0], "einsum")
            if product is not None and perm[-1] == len(perm) - 1 and net.alone(node.inputs[0]):
                form = parse(product.attrs["equation"])
                result = "".join(form.result[p] for p in perm)
                equation = str(Equation(form.operands, result))
                return b.op("einsum", *product.inputs, name=node.name, equation=equation)
        return None

    return rewrite(net, rule)


def delay_transposes(net: Network) -> Network:
    """The first two rules of `fold_transposes` alone: products are left as they are.

    Once reshapes stand behind elementwise operators, transposes may, too, and meet others.
    """
    return rewrite(net, partial(_delayed, net))


def _delayed(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if OPERATORS[node.op].pattern <= Pattern.BROADCAST:
        return _elementwise(net, b, node, inputs)
    return _reshape(net, b, node, inputs) if node.op == "reshape" else None


def _elementwise(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    wide = [i for i, v in enumerate(inputs) if math.prod(b.shape(v)) != 1]
    if len(wide) == 1 and net.alone(node.inputs[wide[0]]):
        before = b.node(inputs[wide[0]], "transpose")
        if before is not None and b.shape(inputs[wide[0]]) == net.types[node.name].shape:
            operands = [before.inputs[0] if i == wide[0] else v for i, v in enumerate(inputs)]
            y = b.op(node.op, *operands, name=f"{node.name}_before", **node.attrs)
            return b.op("transpose", y, name=node.name, perm=before.attrs["perm"])
    return None


def _reshape(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    before = b.node(inputs[0], "transpose")
    if before is not None and not net.alone(node.inputs[0]):
        before = None  # it would be moved twice
    parts = split_parts(b.shape(inputs[0]), node.attrs["shape"]) if before is not None else None
    if before is None or parts is None:
        return None
    perm = before.attrs["perm"]
    order = [perm.index(d) for d in range(len(perm))]  # the transposed dimension of each of x
    shape = tuple(n for d in order for n in parts[d])
    starts, at = {}, 0
    for d in order:
        starts[d] = at
        at += len(parts[d])
    new = tuple(starts[d] + i for d in range(len(perm)) for i in range(len(parts[d])))
    split = b.op("reshape", before.inputs[0], shape=shape)
    return b.op("transpose", split, name=node.name, perm=new)


def split_parts(old: Sequence[Extent], new: Sequence[Extent]) -> list[Shape] | None:
    """The dimensions of ``new`` that each of ``old`` is split into, or None if some are merged."""
    parts: list[Shape] = []
    at = 0
    for extent in old:
        own: list[Extent] = []
        size: Extent = 1
        while size != extent:
            if at == len(new) or exact_quotient(extent, size * new[at]) is None:
                return None
            own.append(new[at])
            size *= new[at]
            at += 1
        parts.append(tuple(own))
    if not parts or any(n != 1 for n in new[at:]):
        return None
    parts[-1] = (*parts[-1], *new[at:])
    return parts


def _matmul(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    attrs, operands = dict(node.attrs), list(inputs)
    for i, flag in enumerate(("transpose_a", "transpose_b")):
        before = b.node(operands[i], "transpose")
        if before is not None and tuple(before.attrs["perm"]) == (1, 0):
            operands[i] = before.inputs[0]
            attrs[flag] = not attrs.get(flag, False)
    return b.op(node.op, *operands, name=node.name, **attrs)


def _einsum(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    form = parse(node.attrs["equation"])
    operands, labels = list(inputs), list(form.operands)
    for i in range(len(operands)):
        while (before := b.node(operands[i], "transpose")) is not None:
            perm = before.attrs["perm"]
            operands[i] = before.inputs[0]
            labels[i] = "".join(labels[i][perm.index(d)] for d in range(len(perm)))
    equation = str(Equation(tuple(labels), form.result))
    return b.op("einsum", *operands, name=node.name, equation=equation)
