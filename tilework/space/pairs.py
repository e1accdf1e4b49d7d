"""Products of bfloat16 that are summed two at a time, by the CPU's dot instruction.

``sum over k of float32(a[.., k]) * float32(w[k, .., f])`` with an even extent of k becomes::

    for k2 in k / 2:  acc[f] += a[2*k2] * w[2*k2, f] + a[2*k2 + 1] * w[2*k2 + 1, f]

where the two elements of ``a`` are neighbours in memory, and so are those of ``w`` once it is
packed. One instruction does it for a whole vector of f.
"""

from __future__ import annotations

from dataclasses import replace

from tilework.space.blocks import Block
from tilework.space.capabilities import Dots
from tilework.te.affine import linear
from tilework.te.expr import (
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    IfThenElse,
    Read,
    Reduce,
    linear_axes,
    walk,
)
from tilework.te.tensor import Placeholder


def dot_pairs(block: Block) -> Block:
    """The block with its `Dots`, where an instruction that sums two products can be used."""
    axis = _pair_axis(block)
    return block if axis is None else replace(block, dots=Dots(axis, 2))


def _pair_axis(block: Block) -> Axis | None:
    """The reduce axis whose points the block's nest takes in pairs, if it can."""
    body = block.body
    if not isinstance(body, Reduce) or body.kind != "sum" or not block.levels.reuse:
        return None
    factors = product(body.source)
    if factors is None:
        return None
    free = block.op.attrs.get("layout_free", ())
    for data, weight in (factors, factors[::-1]):
        if not isinstance(weight, Read) or weight.tensor.name not in free:
            continue
        axes = linear_axes(weight) or []
        read = _element(data)
        if not isinstance(weight.tensor.op, Placeholder) or read is None or not block.spatial:
            continue
        last = block.spatial[-1]
        moves = any(n is last for i in read.indices for n in walk(i))
        form = linear(read.indices[-1])
        if last not in axes or moves or form is None:
            continue
        for axis, step in form.coefficients.items():
            elsewhere = sum(n is axis for n in walk(data)) > 1
            whole = axis in axes and weight.tensor.shape[axes.index(axis)] == axis.extent
            if axis.kind == "reduce" and step == 1 and axis.extent % 2 == 0 and whole:
                return None if elsewhere else axis
    return None


def product(source: Expr) -> tuple[Expr, Expr] | None:
    """The two bfloat16 factors of ``float32(a) * float32(b)``; None for anything else."""
    if not (isinstance(source, Binary) and source.op == "*" and source.dtype == "float32"):
        return None
    a, b = source.a, source.b
    if not (isinstance(a, Cast) and isinstance(b, Cast)):
        return None
    if a.a.dtype != "bfloat16" or b.a.dtype != "bfloat16":
        return None
    return a.a, b.a


def _element(e: Expr) -> Read | None:
    """The read of a factor: the factor itself, or the padded element it is."""
    if isinstance(e, IfThenElse) and isinstance(e.b, Const) and e.b.value == 0:
        e = e.a
    return e if isinstance(e, Read) else None
