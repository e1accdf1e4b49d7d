"""Index expressions as forms of `tilework.index`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilework.index import form as forms
from tilework.index.extents import Extent
from tilework.index.form import Atom, Form
from tilework.index.symbols import certain
from tilework.index.whole import DIVISIONS, folded
from tilework.te.expr import Axis, Binary, Const, Expr

Known = Mapping[Axis, "str | Extent"]
"""What stands for each variable: a name, or its value where that is known."""


def form_of(e: Expr, atom: Callable[[Expr], Form[Atom] | None]) -> Form[Atom] | None:
    """An integer expression as a form; ``atom`` says what all but literals and sums is."""
    match e:
        case Const():
            return forms.constant(e.whole)
        case Binary(op="+" | "-"):
            a, b = form_of(e.a, atom), form_of(e.b, atom)
            if a is None or b is None:
                return None
            return a + b if e.op == "+" else a - b
        case Binary(op="*"):
            a, b = form_of(e.a, atom), form_of(e.b, atom)
            whole = forms.product(a, b) if a is not None and b is not None else None
            if whole is not None:
                return whole
    return atom(e)


def linear(e: Expr) -> Form[Axis] | None:
    """The form of an expression that is linear in axes, None for any other."""
    terms: dict[Axis, Extent] = {}
    const = _gathered(e, 1, terms)
    if const is not None:
        return forms.total(terms, const)
    return form_of(e, lambda x: forms.variable(x) if isinstance(x, Axis) else None)


def _gathered(e: Expr, factor: Extent, terms: dict[Axis, Extent]) -> Extent | None:
    """Put the axes of a sum into ``terms``, in their order; returns its number.

    None where that is not all there is to do: an axis comes twice, or something is no such sum.
    It makes no forms on its way: kernels have tens of thousands of indices, nearly all such sums.
    """
    if type(e) is Const:
        return e.whole * factor
    if type(e) is Axis:
        if e in terms:
            return None
        terms[e] = factor
        return 0
    if type(e) is not Binary:
        return None
    if e.op == "+" or e.op == "-":
        a = _gathered(e.a, factor, terms)
        if a is None:
            return None
        b = _gathered(e.b, factor if e.op == "+" else -factor, terms)
        return None if b is None else a + b
    if e.op == "*":
        for one, other in ((e.b, e.a), (e.a, e.b)):
            if type(one) is Const and isinstance(one.whole, int) and one.whole:
                return _gathered(other, factor * one.whole, terms)
    return None


def sum_of(e: Expr, known: Known | None = None) -> Form[Expr]:
    """The form of any integer expression: what is no sum is an atom, or has a known value."""

    def atom(x: Expr) -> Form[Expr]:
        value = value_of(x, known) if known is not None else None
        return forms.variable(x) if value is None else forms.constant(value)

    form = form_of(e, atom)
    assert form is not None
    return form


def value_of(e: Expr, known: Known) -> Extent | None:
    """The value of an index expression where all its variables are known."""
    match e:
        case Const():
            return e.whole if e.dtype != "bool" else None
        case Axis():
            value = known.get(e)
            return None if isinstance(value, str) else value
        case Binary(op="+" | "-" | "*" | "max" | "min" | "//" | "%" | "quot" | "rem"):
            a = value_of(e.a, known)
            b = value_of(e.b, known) if a is not None else None
            if a is None or b is None:
                return None
            if e.op in DIVISIONS and not certain(
                lambda: b >= 0 and (a >= 0 or e.op not in ("quot", "rem"))
            ):
                return None
            return folded(e.op, a, b)
    return None


def position(indices: Sequence[Expr], strides: Sequence[Extent]) -> Form[Axis] | None:
    """The number of an element as a form of axes, None where an index has none."""
    terms: dict[Axis, Extent] = {}
    const: Extent = 0
    for e, stride in zip(indices, strides, strict=True):
        part = _gathered(e, stride, terms) if stride != 0 else None
        if part is None:
            return forms.position_if(map(linear, indices), strides)
        const += part
    return forms.total(terms, const)
