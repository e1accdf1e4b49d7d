"""Bounds of a reduction: where inlined padding decides whether an element is read at all.

``if_then_else(y * 2 + ry >= 1 and ..., data[...], 0)`` holds one *bound* per comparison. A bound
that links one spatial axis to at most one reduce axis (a tap of the window) tells, for a range of
positions, which taps fall on the border. The lowering splits the axis there; the analytic model
counts what is left to compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from tilework.dtypes import finite_range, is_float
from tilework.index.extents import known
from tilework.index.form import constant
from tilework.index.symbols import Symbolic, is_static
from tilework.space.blocks import Block
from tilework.space.capabilities import Bound
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.tensor import Compute


def borders(block: Block) -> Block:
    """The block with all `Bound` comparisons of its reduction that position decides."""
    bounds = _bounds(block)
    return replace(block, bounds=bounds) if bounds else block


def _bounds(block: Block) -> tuple[Bound, ...]:
    if not isinstance(block.body, x.Reduce) or block.const_axes or block.body.limits:
        return ()
    return bounds_of(block.body.kind, block.source, block.spatial, block.reduce)


def bounds_of(
    kind: str, source: x.Expr, spatial: Sequence[x.Axis], reduce: Collection[x.Axis]
) -> tuple[Bound, ...]:
    """The bounds of a reduction over these terms, whose last spatial axis is that of vectors.

    Of an axis whose extent a run decides, all or none: those that clipped loops leave out.
    """
    out: list[Bound] = []
    for guard in guards(source):
        skips = _neutral(kind, source, guard)
        bounds = [_bound(spatial, reduce, node, skips) for node in conjuncts(guard.cond)]
        out += [b for b in bounds if b is not None]
    pairs = {(b.axis, b.tap) for b in out if b.tap is not None}
    shared = {a for pair in pairs for a in pair if sum(a in p for p in pairs) > 1}
    shared |= {b.axis for b in out if b.axis.open and not (b.skips and b.tap is not None)}
    return tuple(b for b in out if b.axis not in shared and b.tap not in shared)


def clipped_at_borders(op: Compute, source: x.Expr) -> bool:
    """Whether clipped loops over taps leave out all that lies beyond borders a run decides.

    Args:
        op: a reduction.
        source: its terms, with padding inlined.
    """
    assert isinstance(op.body, x.Reduce)
    known = {b.node for b in bounds_of(op.body.kind, source, op.axes, op.reduce_axes)}
    asked = {c for guard in guards(source) for c in conjuncts(guard.cond)} - known
    return not any(isinstance(n, x.Axis) and n.open for c in asked for n in x.walk(c))


@lru_cache(maxsize=2048)
def guards(e: x.Expr) -> tuple[x.IfThenElse, ...]:
    """The conditions in an expression, each before those inside it."""
    return tuple([n for n in x.nodes(e) if isinstance(n, x.IfThenElse)])


def serial_taps(block: Block) -> frozenset[x.Axis]:
    """Taps whose loops are not expanded, because a reduce axis that is no tap is.

    Windows of neighbouring points overlap. In one straight piece of code, elements that several
    taps read would wait in registers for the last of them, and push others out.
    """
    taps = {b.tap for b in block.bounds if b.tap is not None}
    others = any(a.extent != 1 for a in block.reduce if a not in taps)
    return frozenset(taps) if others else frozenset()


def _bound(
    spatial: Sequence[x.Axis], reduce: Collection[x.Axis], node: x.Expr, skips: bool
) -> Bound | None:
    if not isinstance(node, x.Compare) or not node.a.dtype.startswith("int"):
        return None
    a, b = linear(node.a), linear(node.b)
    if a is None or b is None or node.op in ("==", "!="):
        return None
    form = a - b if node.op in (">", ">=") else b - a
    if node.op in ("<", ">"):
        form = form + constant(-1)
    taps = [a for a in form.coefficients if a in reduce]
    if not is_static((*form.coefficients.values(), *(a.extent for a in taps))):
        return None
    at = [a for a in form.coefficients if a in spatial]
    if len(at) != 1 or len(taps) > 1 or at[0] is spatial[-1]:
        return None
    (axis,), tap = at, taps[0] if taps else None
    if not axis.open and not is_static([form.const]):
        return None
    step = known(form.step(tap)) if tap is not None else 0
    return Bound(node, axis, known(form.step(axis)), tap, step, form.const, skips)


def start(block: Block) -> float:
    """What the reduction of a block starts from: its neutral element.

    Where padding with the lowest number (of a minimum: the highest) is left out because it cannot
    win, that number takes the place of the infinity: a window of padding alone gives it.
    """
    assert isinstance(block.body, x.Reduce)
    neutral = block.body.identity
    if is_float(block.op.dtype) and any(b.skips for b in block.bounds):
        low, high = finite_range(block.op.dtype)
        return {"max": low, "min": high}.get(block.body.kind, neutral)
    return neutral


def conjuncts(cond: x.Expr) -> Iterator[x.Expr]:
    """The predicates that ``cond`` joins by ``and``."""
    if isinstance(cond, x.Logic) and cond.op == "and":
        yield from conjuncts(cond.a)
        yield from conjuncts(cond.b)
    else:
        yield cond


def conjunction(parts: Collection[x.Expr]) -> x.Expr | None:
    """The predicates joined by ``and``; None without any."""
    out: x.Expr | None = None
    for part in parts:
        out = part if out is None else x.Logic("bool", "and", out, part)
    return out


def _neutral(kind: str, e: x.Expr, guard: x.IfThenElse) -> bool:
    """Whether ``e`` leaves a reduction of ``kind`` as it is wherever ``guard`` does not hold."""
    if kind == "sum":
        return _zero(e, guard)
    if isinstance(e, x.IfThenElse):
        return (e is guard or _neutral(kind, e.a, guard)) and _neutral(kind, e.b, guard)
    if not isinstance(e, x.Const):
        return False
    if kind == "prod":
        return e.value == 1
    low, high = finite_range(e.dtype)  # padding with these has always counted as nothing
    if isinstance(e.value, Symbolic):
        return False
    return bool(e.value <= low if kind == "max" else e.value >= high)


def _zero(e: x.Expr, guard: x.IfThenElse) -> bool:
    match e:
        case x.Const():
            return e.value == 0
        case x.IfThenElse() if e is guard:
            return _zero(e.b, guard)
        case x.IfThenElse() | x.Select():
            return _zero(e.a, guard) and _zero(e.b, guard)
        case x.Binary(op="*"):
            return _zero(e.a, guard) or _zero(e.b, guard)
        case x.Binary(op="+" | "-"):
            return _zero(e.a, guard) and _zero(e.b, guard)
        case x.Cast():
            return _zero(e.a, guard)
    return False


def without(e: x.Expr, known: Collection[x.Compare]) -> x.Expr:
    """``e`` where the comparisons ``known`` hold: they are left out of its guards."""

    def visit(node: x.Expr) -> x.Expr | None:
        if not isinstance(node, x.IfThenElse):
            return None
        parts = list(conjuncts(node.cond))
        kept = [p for p in parts if p not in known]
        then = x.substitute(node.a, visit)
        cond = conjunction(kept)
        if cond is None:
            return then
        cond = node.cond if len(kept) == len(parts) else cond
        return x.IfThenElse(node.dtype, cond, then, x.substitute(node.b, visit))

    return x.substitute(e, visit) if known else e
