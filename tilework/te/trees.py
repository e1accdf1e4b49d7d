"""Walking through expressions, and rewriting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from tilework.te.arithmetic import Binary, Const, Expr, binary
from tilework.te.nodes import Axis, Read
from tilework.te.parts import Parts, preorder

PARTS = Parts("Expr")


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions of ``e``, left to right (indices for a read).

    Those of a `Reduce` are its source and then its limits.
    """
    return PARTS[type(e)](e)


def rebuild(e: Expr, kids: Sequence[Expr]) -> Expr:
    """A copy of ``e`` with its direct sub-expressions replaced (``e`` itself if unchanged)."""
    if children(e) == (new := tuple(kids)):  # each is itself: nodes compare by identity
        return e
    return binary(e.op, *new) if isinstance(e, Binary) else PARTS.exchanged(e, new)


def walk(e: Expr, parts: Parts = PARTS, seen: set[Expr] | None = None) -> Iterator[Expr]:
    """All nodes of ``e`` in pre-order; with ``seen``, those alone that it lacks, which it gets."""
    return preorder((e,), parts, seen)


def literals(roots: Sequence[Expr]) -> Iterator[Const]:
    """The literals in expressions: nothing else is remembered of leaves, which most nodes are."""
    left, seen = [*roots], set[Expr]()
    while left:
        node = left.pop()
        if type(node) is Const:
            yield node
        elif type(node) is not Axis and node not in seen:
            seen.add(node)
            left += PARTS[type(node)](node)


@lru_cache(maxsize=256)
def nodes(e: Expr) -> tuple[Expr, ...]:
    """All nodes of ``e`` as `walk` has them, kept: several look at a body one after another."""
    return tuple(walk(e))


def substitute(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite top-down: where ``replace`` returns an expression it takes the node's place."""
    new = replace(e)
    if new is not None:
        return new
    kids = children(e)
    return rebuild(e, [substitute(k, replace) for k in kids]) if kids else e


def rewritten(
    e: Expr,
    change: Callable[[Expr, tuple[Expr, ...]], Expr | None],
    known: dict[Expr, Expr] | None = None,
) -> Expr:
    """Rewrite bottom-up: what ``change`` returns for a node and its new parts takes its place.

    Where it returns None the node is what it was, of these parts. With ``known``, those that it
    has are rewritten already, and it gets the others: nodes that are shared stay so.
    """
    hit = known.get(e) if known is not None else None
    if hit is not None:
        return hit
    kids = tuple([rewritten(k, change, known) for k in children(e)])
    new = change(e, kids)
    out = rebuild(e, kids) if new is None else new
    if known is not None:
        known[e] = out
    return out


def replace_axes(e: Expr, mapping: dict[Axis, Expr]) -> Expr:
    """Replace axis variables by expressions."""
    return substitute(e, lambda n: mapping.get(n) if isinstance(n, Axis) else None)


def factors(e: Expr) -> Iterator[Expr]:
    """Factors of a product, left to right."""
    if isinstance(e, Binary) and e.op == "*":
        yield from factors(e.a)
        yield from factors(e.b)
    else:
        yield e


def reads(e: Expr) -> list[Read]:
    """All tensor reads in ``e``, in order of appearance."""
    return [*_reads(e)]


@lru_cache(maxsize=4096)
def _reads(e: Expr) -> tuple[Read, ...]:
    """The same, kept: rules and kinds ask for those of a body again and again."""
    return tuple([n for n in nodes(e) if isinstance(n, Read)])
