"""Transposes become a matter of how products read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern, Shape
from tilework.graph.operators.reductions import axes_of
from tilework.index.extents import Extent, known_shape
from tilework.index.symbols import exact_quotient
from tilework.ops.einsum import Equation, parse
from tilework.ops.reductions import REDUCTIONS

_REDUCTIONS = {f"reduce_{kind}" for kind in REDUCTIONS}


def fold_transposes(net: Network) -> Network:
    """Let products read transposed operands in place, and write transposed results.

    rewrite:
        f(transpose(x), c)                            ->  transpose(f(x, reshape(c)))
        reduce(transpose(x))                          ->  transpose(reduce(x))
        concat(transpose(x), transpose(y))            ->  transpose(concat(x, y))
        reshape(transpose(x)) that splits dimensions  ->  transpose(reshape(x))
        matmul(transpose(a), b)                       ->  matmul(a, b; transpose_a), or back
        einsum(transpose(a), b; "ij,jk->ik")          ->  einsum(a, b; "ji,jk->ik")
        transpose(einsum(a, b; "bij,bjk->bik"))       ->  einsum(a, b; "bij,bjk->ibk")

    The first rule holds where c has one element; or where all others that read the transpose are
    reductions, and the dimensions along which c is longer than 1 keep their order. The last
    dimension of a product's result stays: vectors of it are computed at once. Attention so reads
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
    """The rules of `fold_transposes` that are not of products, which are left as they are.

    Once reshapes stand behind elementwise operators, transposes may, too, and meet others.
    """
    return rewrite(net, partial(_delayed, net))


def _delayed(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op in _REDUCTIONS:
        return _reduction(net, b, node, inputs)
    if node.op == "concat":
        return _joined(net, b, node, inputs)
    if OPERATORS[node.op].pattern <= Pattern.BROADCAST:
        return _elementwise(net, b, node, inputs)
    return _reshape(net, b, node, inputs) if node.op == "reshape" else None


def _reduction(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    before = b.node(inputs[0], "transpose")
    if before is None or not _reduced(net, node.inputs[0], before.attrs["perm"]):
        return None
    perm, rank = before.attrs["perm"], len(before.attrs["perm"])
    axes = axes_of(node.attrs, rank)
    moved = tuple(sorted(perm[d] for d in axes))
    attrs = {**node.attrs, "axes": moved}
    if not node.attrs["keepdims"]:
        left = [d for d in range(rank) if d not in moved]
        perm = tuple(left.index(p) for d, p in enumerate(perm) if d not in axes)
    if list(perm) == sorted(perm):
        return b.op(node.op, before.inputs[0], name=node.name, **attrs)
    y = b.op(node.op, before.inputs[0], name=f"{node.name}_before", **attrs)
    return b.op("transpose", y, name=node.name, perm=perm)


def _joined(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Of a concatenation: all of its operands are transposed alike, for it alone."""
    sources = [b.node(v, "transpose") for v in inputs]
    perms = {None if s is None else tuple(s.attrs["perm"]) for s in sources}
    (perm, *others) = perms
    if perm is None or others or not all(map(net.alone, node.inputs)):
        return None
    operands = [s.inputs[0] for s in sources if s is not None]
    axis = perm[node.attrs["axis"] % len(perm)]
    y = b.op("concat", *operands, name=f"{node.name}_before", axis=axis)
    return b.op("transpose", y, name=node.name, perm=perm)


def _elementwise(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    permute = OPERATORS[node.op].permute
    for i, v in enumerate(inputs):
        before = b.node(v, "transpose")
        if permute is None or before is None or b.shape(v) != net.types[node.name].shape:
            continue
        perm, others = before.attrs["perm"], [*inputs[:i], *inputs[i + 1 :]]
        numbers = all(math.prod(b.shape(o)) == 1 for o in others)
        if not ((numbers and net.alone(node.inputs[i])) or _reduced(net, node.inputs[i], perm)):
            return None
        back = _back(perm)
        turned = [before.inputs[0] if o == v else _turned(b, o, back) for o in inputs]
        y = b.op(node.op, *turned, name=f"{node.name}_before", **permute(node.attrs, back))
        return b.op("transpose", y, name=node.name, perm=perm)
    return None


def _reduced(net: Network, value: str, perm: Sequence[int]) -> bool:
    """Whether reductions alone read a transposed value, and at most one elementwise operator.

    The other operands of that one are transposed back by views.
    """
    readers = net.consumers[value]
    others = [n for n in readers if n.op not in _REDUCTIONS]
    if len(others) > 1 or len(others) == len(readers) or value in net.outputs:
        return False
    back = _back(perm)
    return all(
        OPERATORS[n.op].pattern <= Pattern.BROADCAST
        and OPERATORS[n.op].permute is not None
        and net.types[value].shape == net.types[n.name].shape
        and sum(not keeps_order(_full(net.types[v].shape, back), back) for v in n.inputs) == 1
        for n in others
    )


def _back(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(list(perm).index(d) for d in range(len(perm)))


def keeps_order(shape: Shape, perm: Sequence[int]) -> bool:
    """Whether transposing only moves extents of 1."""
    moved = [p for p in perm if shape[p] != 1]
    return moved == sorted(moved)


def _full(shape: Shape, perm: Sequence[int]) -> Shape:
    """An operand's shape with as many dimensions as are transposed."""
    return (*(1,) * (len(perm) - len(shape)), *shape)


def _turned(b: Builder, value: str, perm: Sequence[int]) -> str:
    """An operand, transposed by a view."""
    if all(n == 1 for n in b.shape(value)):
        return value
    full = _full(b.shape(value), perm)
    shape = tuple(full[p] for p in perm)
    if value in b.constants:
        return b.constant(b.constants[value].reshape(known_shape(shape)), value)
    return b.op("reshape", value, shape=shape)


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
