"""Walking through expressions, and rewriting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilework.te.arithmetic import Binary, Compare, Const, Expr, binary
from tilework.te.nodes import (
    Axis,
    Call,
    Cast,
    IfThenElse,
    Logic,
    Lookup,
    Not,
    Read,
    Reduce,
    Select,
)


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions of ``e``, left to right (indices for a `Read`).

    Those of a `Reduce` are its source and then its limits.
    """
    match e:
        case Binary() | Compare() | Logic():
            return (e.a, e.b)
        case Select() | IfThenElse():
            return (e.cond, e.a, e.b)
        case Not() | Cast():
            return (e.a,)
        case Call():
            return e.args
        case Read() | Lookup():
            return e.indices
        case Reduce():
            return (e.source, *(limit for _, limit in e.limits))
    return ()


def rebuild(e: Expr, kids: Sequence[Expr]) -> Expr:
    """A copy of ``e`` with its direct sub-expressions replaced (``e`` itself if unchanged)."""
    if all(x is y for x, y in zip(children(e), kids, strict=True)):
        return e
    match e:
        case Binary():
            return binary(e.op, kids[0], kids[1])
        case Compare():
            return Compare("bool", e.op, kids[0], kids[1])
        case Logic():
            return Logic("bool", e.op, kids[0], kids[1])
        case Select():
            return Select(e.dtype, kids[0], kids[1], kids[2])
        case IfThenElse():
            return IfThenElse(e.dtype, kids[0], kids[1], kids[2])
        case Not():
            return Not("bool", kids[0])
        case Cast():
            return Cast(e.dtype, kids[0])
        case Call():
            return replace(e, args=tuple(kids))
        case Read():
            return Read(e.dtype, e.tensor, tuple(kids))
        case Lookup():
            return Lookup(e.dtype, e.name, e.values, e.shape, tuple(kids))
        case Reduce():
            limits = zip((a for a, _ in e.limits), kids[1:], strict=True)
            return Reduce(e.dtype, e.kind, kids[0], e.axes, tuple(limits))
    raise TypeError(f"{type(e).__name__} has no sub-expressions")


def walk(e: Expr) -> Iterator[Expr]:
    """All nodes of ``e`` in pre-order."""
    left = [e]
    while left:
        node = left.pop()
        yield node
        left += reversed(children(node))


def substitute(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite top-down: where ``replace`` returns an expression it takes the node's place."""
    new = replace(e)
    if new is not None:
        return new
    kids = children(e)
    if not kids:
        return e
    return rebuild(e, [substitute(k, replace) for k in kids])


def replace_axes(e: Expr, mapping: dict[Axis, Expr]) -> Expr:
    """Replace axis variables by expressions."""
    return substitute(e, lambda n: mapping.get(n) if isinstance(n, Axis) else None)


def reads(e: Expr) -> list[Read]:
    """All tensor reads in ``e``, in order of appearance."""
    return [n for n in walk(e) if isinstance(n, Read)]


def linear_axes(read: Read) -> list[Axis | None] | None:
    """The axis that indexes each dimension (None for a literal 0), if all are that simple.

    Returns None when an index is anything else, or an axis indexes two dimensions.
    """
    out: list[Axis | None] = []
    for index in read.indices:
        if isinstance(index, Axis) and index not in out:
            out.append(index)
        elif isinstance(index, Const) and index.value == 0:
            out.append(None)
        else:
            return None
    return out
