"""Transposes move behind the operators that do not mind them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern, infer

_ALSO = ("concat", "batch_norm")


def sink_transposes(net: Network) -> Network:
    """Apply elementwise operators, concatenations and padding before a transpose, not after it.

    All operands must be transposed alike for this operator alone; constants are turned back at
    compile time. Transposes so meet others, which cancel them (`merge_views`), or operators that
    read transposed operands in place.

    rewrite:
        f(transpose(x, p))                        ->  transpose(f(x), p)
        f(transpose(x, p), transpose(y, p))       ->  transpose(f(x, y), p)
        f(transpose(x, p), c)                     ->  transpose(f(x, transpose(c, p^-1)), p)
        concat(transpose(x, p), transpose(y, p))  ->  transpose(concat(x, y), p)
    """
    return rewrite(net, partial(_moved, net))


def _moved(net: Network, b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    operator = OPERATORS[node.op]
    if operator.permute is None or not (operator.pattern <= Pattern.INJECTIVE or node.op in _ALSO):
        return None
    maps = inputs[: operator.permuted_inputs]
    sources = [b.node(v, "transpose") for v in maps]
    perms = {tuple(s.attrs["perm"]) for s in sources if s is not None}
    if len(perms) != 1:
        return None
    (perm,) = perms
    rank = len(perm)
    back = tuple(int(d) for d in np.argsort(perm))
    operands = []
    for value, old, source in zip(maps, node.inputs, sources, strict=False):
        small = math.prod(b.shape(value)) == 1
        if source is not None and net.alone(old):
            operands.append(source.inputs[0])
        elif value in b.constants and len(b.shape(value)) <= rank:
            array = b.constants[value]
            full = array.reshape((1,) * (rank - array.ndim) + array.shape)
            operands.append(b.constant(np.ascontiguousarray(full.transpose(back)), value))
        elif small and len(b.shape(value)) == rank:
            operands.append(value)
        else:
            return None
    operands += inputs[len(maps) :]
    attrs = operator.permute(node.attrs, back)
    result = infer(node.op, [b.types[v] for v in operands], attrs)
    if tuple(result.shape[p] for p in perm) != net.types[node.name].shape:
        return None
    y = b.op(node.op, *operands, name=f"{node.name}_before", **attrs)
    return b.op("transpose", y, name=node.name, perm=perm)
