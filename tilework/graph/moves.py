"""Chains of operators that move data, as one stage: each element is fetched from where it began.

before:                                          after:
    t[i, j] = x[j, i]                                y[i, j] = max(x[j, i + 2], 0)
    s[i, j] = t[i + 2, j]
    y[i, j] = max(s[i, j], 0)
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from tilework import te
from tilework.te.analysis import EXPENSIVE, is_elementwise_read
from tilework.te.expr import Call, Expr, Read, reads, replace_axes, rewritten, walk
from tilework.te.tensor import Compute, Operation, make_compute

_MOST_READS = 24
"""A stage that would read more than that, single numbers aside, keeps its producers apart."""


def as_one_stage(output: te.Tensor) -> te.Tensor:
    """``output`` computed from the placeholders directly, as far as that repeats little work.

    None of its stages may be a reduction. A stage with an expensive function stays by itself,
    unless its reader needs each element once.
    """
    done: dict[Compute, te.Tensor] = {}

    def inlined(tensor: te.Tensor) -> te.Tensor:
        op = tensor.op
        if not isinstance(op, Compute):
            return tensor
        if op not in done:
            done[op] = te.Tensor(_merged(op))
        return done[op]

    def _merged(op: Compute) -> Compute:
        def fetched(e: Expr, indices: tuple[Expr, ...], keep: bool = False) -> Expr | None:
            if not isinstance(e, Read):
                return None
            producer = inlined(e.tensor)
            inner = producer.op
            if keep or not isinstance(inner, Compute) or not _cheap(inner, e, op):
                return producer[indices]
            return replace_axes(inner.body, dict(zip(inner.axes, indices, strict=True)))

        body = rewritten(op.body, fetched)
        if sum(set(r.tensor.shape) != {1} for r in reads(body)) > _MOST_READS:
            body = rewritten(op.body, partial(fetched, keep=True))
        return make_compute(op.name, op.axes, body, op.attrs)

    return inlined(output)


def through_indices(output: te.Tensor, gathers: Collection[te.Tensor]) -> te.Tensor:
    """``output`` where what reads a gather's result reads its table instead, by the index.

    A table whose gathered rows may lie in any layout may do so itself.
    """
    done: dict[Operation, te.Tensor] = {}
    inlined = {t.op for t in gathers if isinstance(t.op, Compute)}
    tables = {op.name: reads(op.body)[0].tensor.name for op in inlined}

    def placed(node: Expr, indices: tuple[Expr, ...]) -> Expr | None:
        if not isinstance(node, Read):
            return None
        op = node.tensor.op
        if isinstance(op, Compute) and op in inlined:
            body = rewritten(op.body, placed)  # indices may be computed, too
            return replace_axes(body, dict(zip(op.axes, indices, strict=True)))
        return moved(node.tensor)[indices]

    def moved(tensor: te.Tensor) -> te.Tensor:
        op = tensor.op
        if not isinstance(op, Compute):
            return tensor
        if op not in done:
            free = {tables.get(n, n): None for n in op.attrs.get("layout_free", ())}
            attrs = {**op.attrs, **({"layout_free": tuple(free)} if free else {})}
            done[op] = te.Tensor(make_compute(op.name, op.axes, rewritten(op.body, placed), attrs))
        return done[op]

    return moved(output)


def _cheap(producer: Compute, read: Read, reader: Compute) -> bool:
    if any(isinstance(n, Call) and n.name in EXPENSIVE for n in walk(producer.body)):
        return is_elementwise_read(read, reader)
    return True
