"""What is done with a finished element: the epilogue's elementwise stages, and the store.

Before::

    C[i, j] = sum ...
    D[i, j] = max(C[i, j] + b[j], 0)

After, wherever the sum ends up in a value ``acc``::

    D[i, j] = max(acc + b[j], 0)

A sum of integers may also start from what is added to it first, ``b[j]`` (`Started`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilework.frozen import frozen
from tilework.lower.common import bind, load
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Stmt, Store
from tilework.space.blocks import Block
from tilework.te.expr import Axis, Binary, Expr, Read, nodes, reads, rewritten
from tilework.te.tensor import Operation, Placeholder


@frozen
class Started:
    """What sums of integers start from, so that the epilogue need not add it: a bias.

    Attributes:
        first: it, in terms of the epilogue's axes.
        rest: the epilogue of a sum that has it.
    """

    first: Read
    rest: Expr

    @staticmethod
    def of(block: Block) -> Started | None:
        """The bias of a block: an input that several of its points share.

        Integers alone add up to the same in any order.
        """
        body = block.epilogue_body
        if body is None or block.op.dtype != "int32":
            return None
        if sum(r.tensor.op is block.op for r in reads(body)) != 1:
            return None
        for node in nodes(body):
            if not (isinstance(node, Binary) and node.op == "+" and isinstance(node.a, Read)):
                continue
            first = node.b
            if node.a.tensor.op is not block.op or not isinstance(first, Read):
                continue
            axes = {n for i in first.indices for n in nodes(i) if isinstance(n, Axis)}
            shared = any(a not in axes and not a.unit for a in block.result.axes)
            if shared and isinstance(first.tensor.op, Placeholder):
                return Started(first, rewritten(body, partial(_without, node)))
        return None


def _without(addition: Expr, e: Expr, parts: tuple[Expr, ...]) -> Expr | None:
    return parts[0] if e is addition else None


def finished(
    ctx: LoweringContext,
    block: Block,
    at: Mapping[Axis, Expr],
    done: Expr,
    body: Expr | None = None,
) -> Expr:
    """An element of the block's result.

    Args:
        ctx: the program's context.
        block: the block.
        at: the element's position, by the anchor's axes.
        done: the anchor's element there.
        body: what is evaluated in place of the block's epilogue, in its terms.
    """
    body = block.epilogue_body if body is None else body
    if body is None:
        return done

    def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
        return done if op is block.op else load(ctx.buffers[op], indices)

    own = {o: at[a] for o, a in zip(block.result.axes, block.spatial, strict=True)}
    return bind(body, own, resolve)


def store_result(
    ctx: LoweringContext,
    block: Block,
    at: Mapping[Axis, Expr],
    done: Expr,
    body: Expr | None = None,
) -> Stmt:
    """Store an element of the block's result; arguments as for `finished`."""
    where = tuple(at[a] for a in block.spatial)
    return Store(ctx.buffers[block.result], where, finished(ctx, block, at, done, body))
