"""What is done with a finished element: the epilogue's elementwise stages, and the store.

Before::

    C[i, j] = sum ...
    D[i, j] = max(C[i, j] + b[j], 0)

After, wherever the sum ends up in a value ``acc``::

    D[i, j] = max(acc + b[j], 0)
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.lower.common import bind, load
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Stmt, Store
from tilework.space.blocks import Block
from tilework.te.expr import Axis, Expr, Read
from tilework.te.tensor import Operation


def finished(ctx: LoweringContext, block: Block, at: Mapping[Axis, Expr], done: Expr) -> Expr:
    """An element of the block's result.

    Args:
        ctx: the program's context.
        block: the block.
        at: the element's position, by the anchor's axes.
        done: the anchor's element there.
    """
    if block.epilogue_body is None:
        return done

    def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
        return done if op is block.op else load(ctx.buffers[op], indices)

    own = {o: at[a] for o, a in zip(block.result.axes, block.spatial, strict=True)}
    return bind(block.epilogue_body, own, resolve)


def store_result(ctx: LoweringContext, block: Block, at: Mapping[Axis, Expr], done: Expr) -> Stmt:
    """Store an element of the block's result; arguments as for `finished`."""
    where = tuple(at[a] for a in block.spatial)
    return Store(ctx.buffers[block.result], where, finished(ctx, block, at, done))
