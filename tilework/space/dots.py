"""Products that are summed several at a time, by an instruction of the machine.

``sum over k of float32(a[.., k]) * float32(w[k, .., f])`` with bfloat16 factors and an even
extent of k becomes, by an instruction of two terms::

    for k2 in k / 2:  acc[f] += a[2*k2] * w[2*k2, f] + a[2*k2 + 1] * w[2*k2 + 1, f]

where the two elements of ``a`` are neighbours in memory, and so are those of ``w`` once it is
packed. One instruction does it for a whole vector of f.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from tilework.dtypes import is_float
from tilework.space.blocks import Block
from tilework.space.capabilities import Dots
from tilework.space.instructions import Instruction
from tilework.space.nests import Capability
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.tensor import Placeholder


def dot_products(instructions: Iterable[Instruction]) -> Capability:
    """Sets a block's `Dots`: the first of the target's instructions that can be used."""
    return partial(_with_dots, tuple(instructions))


def _with_dots(instructions: tuple[Instruction, ...], block: Block) -> Block:
    for instruction in instructions:
        axis = _grouped_axis(block, instruction)
        if axis is not None:
            return replace(block, dots=Dots(axis, instruction))
    return block


def _grouped_axis(block: Block, instruction: Instruction) -> x.Axis | None:
    """The reduce axis whose points the block's nest takes in groups, if it can."""
    body = block.body
    if not isinstance(body, x.Reduce) or body.kind != "sum" or not block.levels.reuse:
        return None
    factors = instruction.factors(body.source)
    if factors is None:
        return None
    free = block.op.attrs.get("layout_free", ())
    for data, weight in (factors, factors[::-1]):
        if not isinstance(weight, x.Read) or weight.tensor.name not in free:
            continue
        axes = x.linear_axes(weight) or []
        read = _element(data)
        if not isinstance(weight.tensor.op, Placeholder) or read is None or not block.spatial:
            continue
        last = block.spatial[-1]
        moves = any(n is last for i in read.indices for n in x.walk(i))
        form = linear(read.indices[-1])
        if last not in axes or moves or form is None:
            continue
        for axis, step in form.coefficients.items():
            elsewhere = sum(n is axis for n in x.walk(data)) > 1
            whole = axis in axes and weight.tensor.shape[axes.index(axis)] == axis.extent
            groups = axis.kind == "reduce" and not axis.open
            groups = groups and axis.points % instruction.terms == 0
            if groups and step == 1 and whole:
                return None if elsewhere else axis
    return None


def _element(e: x.Expr) -> x.Read | None:
    """The read of a factor: the factor itself, or the element padded by 0, or by any integer."""
    if isinstance(e, x.IfThenElse) and isinstance(e.b, x.Const):
        if is_float(e.dtype) and e.b.value != 0:
            return None
        e = e.a
    return e if isinstance(e, x.Read) else None
