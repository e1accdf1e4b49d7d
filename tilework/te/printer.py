"""Readable text of expressions and DAGs, in the form that users of auto-schedulers know."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilework.dtypes import is_float
from tilework.te import expr as x
from tilework.te.tensor import Compute, Operation, Placeholder

Names = Callable[[object], str]
Others = Callable[[x.Expr], str | None]
_LOGIC = {"and": "&&", "or": "||"}
_CALLED = {
    "//": "floordiv", "%": "floormod", "quot": "truncdiv", "rem": "truncmod", "&": "bitwise_and",
    "|": "bitwise_or", "^": "bitwise_xor", "<<": "shift_left", ">>": "shift_right", "max": "max",
    "min": "min",
}  # fmt: skip
_SUFFIX = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


def default_names(node: Any) -> str:
    """Names as declared."""
    return str(node.name)


def no_others(_: x.Expr) -> None:
    """No node but those of `te` is known."""


def const_text(e: x.Const) -> str:
    """A literal: ``0f`` and ``1.5f`` for float32, plain digits for int32, a cast otherwise."""
    if e.dtype == "bool":
        return f"(bool){e.whole}"
    if is_float(e.dtype):
        v = e.real
        text = repr(v) if math.isinf(v) or math.isnan(v) else f"{v:.6g}"
        return text + "f" if e.dtype == "float32" else f"{e.dtype}({text})"
    return str(e.whole) if e.dtype == "int32" else f"({e.dtype}){e.whole}"


def expr_text(e: x.Expr, names: Names = default_names, others: Others = no_others) -> str:
    """Fully parenthesised text of an expression; ``others`` writes nodes that are not of `te`."""

    def text(part: x.Expr) -> str:
        return expr_text(part, names, others)

    match e:
        case x.Const():
            return const_text(e)
        case x.Axis():
            return names(e)
        case x.Binary() if e.op in _CALLED:
            return f"{_CALLED[e.op]}({text(e.a)}, {text(e.b)})"
        case x.Binary():
            a, b = text(e.a), text(e.b)
            space = "" if e.op in "*/" else " "
            return f"({a}{space}{e.op}{space}{b})"
        case x.Compare():
            return f"({text(e.a)} {e.op} {text(e.b)})"
        case x.Logic():
            return f"({text(e.a)} {_LOGIC[e.op]} {text(e.b)})"
        case x.Not():
            return f"!{text(e.a)}"
        case x.Select():
            return f"select({', '.join(text(x) for x in (e.cond, e.a, e.b))})"
        case x.IfThenElse():
            inner = ", ".join(text(x) for x in (e.cond, e.a, e.b))
            return f"tir.if_then_else({inner})"
        case x.Cast():
            return f"{e.dtype}({text(e.a)})"
        case x.Call():
            return f"tir.{e.name}({', '.join(text(a) for a in e.args)})"
        case x.Read():
            return f"{names(e.tensor.op)}[{', '.join(text(i) for i in e.indices)}]"
        case x.Lookup():
            return f"{e.name}[{', '.join(text(i) for i in e.indices)}]"
        case x.Reduce():
            return f"{e.kind}({text(e.source)}{limits_text(e, names)})"
    other = others(e)
    if other is None:
        raise TypeError(f"cannot print {type(e).__name__}")
    return other


def limits_text(e: x.Reduce, names: Names = default_names) -> str:
    """The limits of a reduction's axes: `` for k < (..), ..``, or nothing."""
    parts = [f"{names(a)} < {expr_text(limit, names)}" for a, limit in e.limits]
    return f" for {', '.join(parts)}" if parts else ""


def op_text(op: Operation, names: Names = default_names) -> str:
    """One line: ``A = PLACEHOLDER [4, 4]`` or ``C(i, j) += (A[i, k]*B[k, j])``."""
    if isinstance(op, Placeholder):
        dtype = "" if op.dtype == "float32" else f" {op.dtype}"
        return f"{names(op)} = PLACEHOLDER {list(op.shape)}{dtype}"
    head = f"{names(op)}({', '.join(names(a) for a in op.axes)})"
    if isinstance(op.body, x.Reduce):
        terms = f"{expr_text(op.body.source, names)}{limits_text(op.body, names)}"
        return f"{head} {_SUFFIX[op.body.kind]} {terms}"
    return f"{head} = {expr_text(op.body, names)}"


def _shortened(line: str) -> str:
    """A line over 256 characters as its first and last halves."""
    return line if len(line) <= 256 else f"{line[:128]} ..(OMITTED).. {line[-128:]}"


def dag_text(ops: tuple[Operation, ...]) -> str:
    """One line per op in stage order; the whole text ends with a newline."""
    return "".join(_shortened(op_text(op)) + "\n" for op in ops)


def canonical_text(ops: tuple[Operation, ...], io: Sequence[Operation]) -> str:
    """Text that depends on structure alone: tensors and axes are renumbered, extents included.

    All that a computation's values and its space of schedules depend on is part of it, attributes
    and constant matrices too. They follow at the end of an operation's line where there are any:
    the text of an operation without them must not change, because stores find their records by it.

    Args:
        ops: the operations in stage order.
        io: inputs and outputs in the order in which they are passed, part of the identity.
    """
    table: dict[object, str] = {}
    lines = []
    for i, op in enumerate(ops):
        table[op] = f"t{i}"
    for op in ops:
        if isinstance(op, Compute):
            for j, axis in enumerate((*op.axes, *op.reduce_axes)):
                table[axis] = f"a{j}"
            extents = [a.extent for a in (*op.axes, *op.reduce_axes)]
            free = op.attrs.get("layout_free", ())
            layout = sorted(table[p] for p in ops if isinstance(p, Placeholder) and p.name in free)
            exact = [repr(n.value) for n in x.walk(op.body) if isinstance(n, x.Const)]
            text = op_text(op, table.__getitem__)
            lines.append(f"{text} {extents} {op.dtype} {layout} {exact}{_details(op, table)}")
        else:
            lines.append(op_text(op, table.__getitem__))
    lines.append(" ".join(table.get(op, "unused") for op in io))
    return "\n".join(lines)


_NAMED_APART = ("layout_free", "FLOP")
"""Attributes with a place of their own in the text, and one that says only what is reported."""

_RESTATED = ("bsr", "terms")
"""What a sum of as many terms as data say has in its text already: which tensors its body reads,
and how many terms there are on average, by their shapes."""


def _details(op: Compute, table: Mapping[object, str]) -> str:
    """Attributes of an operation, and the elements of its constant matrices."""
    names = {node.name: text for node, text in table.items() if isinstance(node, Operation)}
    names |= {a.name: table[a] for a in (*op.axes, *op.reduce_axes)}
    ragged = isinstance(op.body, x.Reduce) and bool(op.body.limits)
    apart = (*_NAMED_APART, *_RESTATED) if ragged else _NAMED_APART
    attrs = {k: v for k, v in op.attrs.items() if k not in apart}
    matrices = [
        [n.shape, [float(v) for v in n.values]] for n in x.walk(op.body) if isinstance(n, x.Lookup)
    ]
    parts = [_renamed(attrs, names)] if attrs else []
    return "".join(f" {part!r}" for part in [*parts, *matrices])


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """An attribute's value with tensors and axes called by their numbers, in one order.

    Those are marked, so that no other text is taken for one of them.
    """
    if isinstance(value, Mapping):
        return sorted((_renamed(k, names), _renamed(v, names)) for k, v in value.items())
    if isinstance(value, (set, frozenset, list, tuple)):
        unordered = isinstance(value, (set, frozenset))
        return [_renamed(v, names) for v in (sorted(value) if unordered else value)]
    return ("@", names[value]) if isinstance(value, str) and value in names else value
