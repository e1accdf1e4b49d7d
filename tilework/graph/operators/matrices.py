"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import ops, te
from tilework.graph.operators.base import (
    NUMBERS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    summed,
)
from tilework.ops.einsum import extents as label_extents
from tilework.ops.einsum import parse as parse_equation


def _matmul(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    a, b = shapes
    if len(a) != 2 or len(b) != 2:
        raise ValueError("both operands must be matrices")
    k, m = a if attrs.get("transpose_a") else a[::-1]
    n, kb = b if attrs.get("transpose_b") else b[::-1]
    if k != kb:
        raise ValueError(f"the operands disagree on the summed extent: {k} and {kb}")
    return (m, n)


def _dense(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    return _matmul(shapes, {"transpose_b": True})


def _declare_dense(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.dense(t[0], t[1], layout_free=free, sums=a.get("sums", ""))


def _declare_matmul(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    sums = a.get("sums", "")
    if a.get("transpose_b") and not free and not sums:  # what vectors multiply is made contiguous
        left = "km" if a.get("transpose_a") else "mk"
        return ops.einsum(f"{left},nk->mn", t[0], t[1])
    return ops.matmul(
        t[0],
        t[1],
        transpose_a=a.get("transpose_a", False),
        transpose_b=a.get("transpose_b", False),
        layout_free=free,
        sums=sums,
    )


def _einsum(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    form = parse_equation(attrs["equation"])
    size = label_extents(form, shapes)
    return tuple(size[n] for n in form.result)


def _declare_einsum(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    names = (t[1].name,) if free else ()
    return ops.einsum(a["equation"], *t, layout_free=names, sums=a.get("sums", ""))


OPERATORS = (
    Operator("dense", summed(_dense, NUMBERS), _declare_dense, Pattern.ANCHOR),
    Operator("matmul", summed(_matmul, NUMBERS), _declare_matmul, Pattern.ANCHOR),
    Operator("einsum", summed(_einsum, NUMBERS), _declare_einsum, Pattern.ANCHOR),
)
