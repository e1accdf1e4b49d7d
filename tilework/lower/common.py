"""Pieces that every lowering shares: loop variables, nests of loops, and read resolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilework.index import bounds
from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.index.symbols import Symbolic, certain
from tilework.lower.context import LoweringContext
from tilework.lower.expansion import expansion_of_one
from tilework.lower.ir import Buffer, For, Load, Stmt
from tilework.te.affine import linear
from tilework.te.expr import Axis, Binary, Const, Expr, Read, binary, rewritten
from tilework.te.ranges import axis_range
from tilework.te.tensor import Operation

ZERO = Const("int32", 0)
Resolver = Callable[[Operation, Read, tuple[Expr, ...]], Expr]
"""What stands for a read, given the op, the original read and its indices after replacement."""
Index = dict[Axis, Expr]
"""An index for each of some axes."""
LoopSpec = tuple[Axis, Extent | Expr, str]
"""A loop's variable, its extent and its kind: `tilework.lower.ir.For` without a body."""
COMBINE = {"sum": "+", "prod": "*", "max": "max", "min": "min"}
"""By kind of reduction: the operation that adds a term."""


def const(value: Extent) -> Const:
    """An index literal."""
    return Const("int32", value)


def bound(e: Expr) -> Extent | Expr:
    """The end of a loop: a literal as the extent that it is."""
    return e.whole if isinstance(e, Const) else e


def loop_var(name: str, extent: Extent) -> Axis:
    """A fresh loop variable."""
    return Axis("int32", name, extent, "loop")


def var_or_zero(var: Axis) -> Expr:
    """The variable, or 0 where its loop has one iteration and is dropped."""
    return ZERO if var.extent == 1 else var


def weighted_sum(terms: Sequence[tuple[Expr, Extent]]) -> Expr:
    """``sum(expr * weight)`` with literals folded."""
    out: Expr = ZERO
    for expr, weight in terms:
        out = binary("+", out, binary("*", expr, const(weight)))
    return out


def placed(form: Form[Axis], at: Mapping[Axis, Expr]) -> Expr:
    """A form as an expression, its axes at these places."""
    terms = weighted_sum([(at[a], c) for a, c in form.coefficients.items()])
    return binary("+", terms, const(form.const))


def nest(loops: Sequence[LoopSpec], body: Stmt, active: Expr | None = None) -> Stmt:
    """Wrap ``body`` in loops, outermost first; loops of extent 1 vanish.

    ``active`` points of a vector loop count, if not all do.
    """
    for var, extent, kind in reversed(loops):
        if extent != 1:
            body = For(var, extent, kind, body, active=active if kind == "vector" else None)
    return body


def expanded_loops(
    axes: Sequence[Axis], room: int, outer: str = ""
) -> tuple[list[LoopSpec], list[LoopSpec], dict[Axis, Expr]]:
    """Loops over whole reduce axes, the innermost expanded up to ``room`` times.

    Args:
        axes: the axes, outermost first.
        room: steps that the expanded body may hold.
        outer: what the names of serial loops end in.

    Returns:
        The serial loops, the expanded ones that go inside them, and the axes' indices.
    """
    serial: list[LoopSpec] = []
    expanded: list[LoopSpec] = []
    index: dict[Axis, Expr] = {}
    factors = expansion_of_one({a: a.points for a in axes}, room)
    for axis in axes:
        factor = factors[axis]
        whole = loop_var(f"{axis.name}{outer}", axis.points // factor)
        inner = loop_var(f"{axis.name}.u", factor)
        serial.append((whole, whole.extent, "serial"))
        expanded.append((inner, factor, "unroll"))
        index[axis] = weighted_sum([(var_or_zero(whole), factor), (var_or_zero(inner), 1)])
    return serial, expanded, index


def bind(e: Expr, axes: Mapping[Axis, Expr], resolve: Resolver) -> Expr:
    """Replace axes by index expressions and reads by what ``resolve`` returns for them."""
    return rewritten(e, binding(axes, resolve))


def binding(
    axes: Mapping[Axis, Expr], resolve: Resolver
) -> Callable[[Expr, tuple[Expr, ...]], Expr | None]:
    """What `bind` has in the place of a node of new parts: for `rewritten`."""

    def bound(node: Expr, kids: tuple[Expr, ...]) -> Expr | None:
        match node:
            case Axis():
                return axes.get(node)
            case Binary(op="//" | "%"):
                return divide(node.op, *kids)
            case Read():
                return resolve(node.tensor.op, node, kids)
        return None

    return bound


def divide(op: str, a: Expr, b: Expr) -> Expr:
    """``a // b`` or ``a % b``, without the division where loop bounds make it needless.

    ``(4*i + j) // 4`` is ``i`` and ``(4*i + j) % 4`` is ``j`` for ``0 <= j < 4``. For such a j,
    ``(4*i + j) // 8`` is ``(4*i) // 8`` and ``(4*i + j) % 8`` is ``(4*i) % 8 + j``: what is
    divided varies with fewer loops.
    """
    form = linear(a)
    if form is None or not isinstance(b, Const) or not certain(lambda: b.whole > 0):
        return binary(op, a, b)
    d, here = b.whole, {v: v for v in form.coefficients}
    if d == 1:
        return a if op == "//" else ZERO
    parts = bounds.cut(form, d, axis_range)
    if parts is not None:
        return placed(bounds.quotient(parts[0], d) if op == "//" else parts[1], here)
    if isinstance(d, Symbolic):
        return binary(op, a, b)
    unit = bounds.common_unit(form, d)
    parts = bounds.cut(form, unit, axis_range) if unit > 1 else None
    if parts is None or not parts[1].coefficients:
        return binary(op, a, b)
    first = binary(op, placed(parts[0], here), const(d))
    return first if op == "//" else binary("+", first, placed(parts[1], here))


def load(buffer: Buffer, indices: Sequence[Expr]) -> Load:
    """A load expression."""
    return Load(buffer.dtype, buffer, tuple(indices))


def plain_read(ctx: LoweringContext) -> Resolver:
    """A resolver that reads every op from its buffer at the original indices."""

    def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
        return load(ctx.buffers[op], indices)

    return resolve


def inner_loops(vars_: dict[Axis, Axis]) -> list[LoopSpec]:
    """Register-tile loops: expanded, the last one a vector loop."""
    items = list(vars_.values())
    return [
        (v, v.extent, "vector" if i == len(items) - 1 else "unroll") for i, v in enumerate(items)
    ]
