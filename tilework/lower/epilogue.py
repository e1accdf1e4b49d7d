"""What is done with a finished element: the epilogue's elementwise stages, and the store.

Before::

    C[i, j] = sum ...
    D[i, j] = max(C[i, j] + b[j], 0)

After, wherever the sum ends up in a value ``acc``::

    D[i, j] = max(acc + b[j], 0)

A sum of integers may also start from what is added to it first, ``b[j]`` or ``a[i] + b[j]``
(`Started`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilework.frozen import frozen
from tilework.lower.common import bind, load
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Stmt, Store
from tilework.space.blocks import Block
from tilework.te.expr import Axis, Binary, Const, Expr, Read, binary, nodes, reads, rewritten
from tilework.te.tensor import Operation, Placeholder


@frozen
class Started:
    """What sums of integers start from, so that the epilogue need not add it: a bias.

    Attributes:
        first: it, in terms of the epilogue's axes.
        rest: the epilogue of a sum that has it.
    """

    first: Expr
    rest: Expr

    @staticmethod
    def of(block: Block) -> Started | None:
        """What a block adds to its sums at once: inputs that several of its points share.

        Integers alone add up to the same in any order.
        """
        body = block.epilogue_body
        if body is None or block.op.dtype != "int32":
            return None
        sums = [r for r in reads(body) if r.tensor.op is block.op]
        if len(sums) != 1:
            return None
        whole: Expr = sums[0]
        first: Expr | None = None
        for node in reversed(nodes(body)):  # what a node consists of comes before it
            if isinstance(node, Binary) and node.op in "+-" and node.a is whole:
                if not all(_is_shared(r, block) for r in reads(node.b)):
                    break
                before = Const("int32", 0) if first is None and node.op == "-" else first
                first = node.b if before is None else binary(node.op, before, node.b)
                whole = node
        if first is None:
            return None
        return Started(first, rewritten(body, partial(_exchanged, whole, sums[0])))


def _is_shared(read: Read, block: Block) -> bool:
    """Whether it is of an input, and several of a block's points have the same."""
    axes = {n for i in read.indices for n in nodes(i) if isinstance(n, Axis)}
    shared = any(a not in axes and not a.unit for a in block.result.axes)
    return shared and isinstance(read.tensor.op, Placeholder)


def _exchanged(old: Expr, new: Expr, e: Expr, parts: tuple[Expr, ...]) -> Expr | None:
    return new if e is old else None


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
