"""Loops over terms around what a thread computes of its points."""

from __future__ import annotations

from collections.abc import Mapping

from tilework.errors import ScheduleError
from tilework.kinds.cuda.expansion import expansion
from tilework.lower.common import COMBINE, loop_var, var_or_zero
from tilework.lower.ir import Buffer, For, Load, Stmt, Store
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Const, Expr, Reduce, binary


def reduce_vars(nest: BlockNest) -> dict[Axis, Axis]:
    """A variable for the innermost loop of each reduce axis."""
    return {a: loop_var(f"{a.name}.i", int(nest.tiles[a][-1][0])) for a in nest.block.reduce}


def reduce_index(variables: Mapping[Axis, Axis]) -> dict[Axis, Expr]:
    """The indices that these variables stand for."""
    return {a: var_or_zero(v) for a, v in variables.items()}


def reduce_loops(nest: BlockNest, variables: Mapping[Axis, Axis], body: Stmt) -> Stmt:
    """Innermost loops of all reduce axes, expanded as the row's ``unroll`` says."""
    copies = expansion(nest)
    for axis in reversed(nest.block.reduce):
        var, count = variables[axis], int(copies[axis][0])
        if var.points == 1:
            continue
        if count == var.points:
            body = For(var, var.points, "unroll", body)
        else:
            body = For(var, var.points, "serial", body, expand=count)
    return body


def reduction(block: Block) -> Reduce:
    """What a block reduces, with a known number of terms.

    Raises:
        ScheduleError: data decide how many terms it has.
    """
    assert isinstance(block.body, Reduce)
    if block.body.limits:
        raise ScheduleError(
            f"{block.op.name}: data decide how many terms it has; tile it with the levels for "
            "ragged reductions (Tiling.ragged)"
        )
    return block.body


def start(acc: Buffer, where: tuple[Expr, ...], node: Reduce) -> Stmt:
    """A sum begins with the neutral element."""
    return Store(acc, where, Const(acc.dtype, node.identity))


def add(acc: Buffer, where: tuple[Expr, ...], node: Reduce, value: Expr) -> Stmt:
    """A sum takes another term."""
    before = Load(acc.dtype, acc, where)
    return Store(acc, where, binary(COMBINE[node.kind], before, value))
