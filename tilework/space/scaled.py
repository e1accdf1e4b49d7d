"""Sums of scaled sums: what is common to the terms of a block is multiplied once a block.

``sum over g, k of x[g, k] * (w[g, k] - z[g]) * s[g]`` is
``sum over g of s[g] * (sum over k of x * w - z[g] * sum over k of x)``. All sums are held in
registers; what is subtracted is so once a block where a register tile has few rows, else from each
weight, which all rows share. An operator declares it by its attribute ``inner_sum``, the names of
the axes inside: the sum is another one once numbers are rounded.

Terms may be whole numbers, whose sums are exact: ``float32(x * w) * a[g] + b[g] / n`` with n terms
in a block. Then ``float32(sum over k of x * w) * a[g] + b[g]`` is scaled.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilework.space.blocks import Block
from tilework.space.capabilities import Apart, Few, Scaled, Whole
from tilework.te import expr as x
from tilework.te.functions import cast, const

INNER_SUM = "inner_sum"
"""The attribute."""
COUNTS_FROM = "counts_from"
"""An attribute of such sums of integers: ``b`` is minus so many times the scaled sum of the data.
What is added to all weights of a block may then be taken from ``b`` instead."""


def scaled_sums(block: Block) -> Block:
    """Sets what the block's sum is where its body has that form."""
    body, names = block.body, block.op.attrs.get(INNER_SUM, ())
    inner = tuple(a for a in block.reduce if a.name in names)
    if not inner or inner == block.reduce or not block.levels.reuse:
        return block
    if not isinstance(body, x.Reduce) or body.kind != "sum" or block.ragged or not block.spatial:
        return block
    source = body.source
    if not isinstance(source, x.Binary) or source.op != "*" or _reads(source.b, inner):
        return block
    if any(a.open for a in block.reduce):
        return block
    factors = _whole(source.a, inner)
    if factors is not None:
        counts = block.op.attrs.get(COUNTS_FROM)
        whole = replace(factors[1], few=_few(factors[0], factors[1].more, counts))
        scaled = Scaled(inner, factors[0], source.b, whole=whole)
    else:
        scaled = Scaled(inner, source.a, source.b, _apart(source.a, inner, block.spatial[-1]))
    return replace(block, scaled=scaled)


def _whole(e: x.Expr, inner: tuple[x.Axis, ...]) -> tuple[x.Expr, Whole] | None:
    """``float32(terms) * scale + more / n`` as its integer terms and the rest."""
    if not (isinstance(e, x.Binary) and e.op == "+"):
        return None
    product, part = e.a, e.b
    if not all(isinstance(p, x.Binary) and p.op == "*" for p in (product, part)):
        return None
    assert isinstance(product, x.Binary) and isinstance(part, x.Binary)
    cast, equal = product.a, part.b
    whole = isinstance(cast, x.Cast) and cast.a.dtype == "int32" and cast.dtype == "float32"
    if not whole or not isinstance(equal, x.Const):
        return None
    assert isinstance(cast, x.Cast)
    exact = equal.value == 1 / math.prod(a.points for a in inner)
    if not exact or _reads(product.b, inner) or _reads(part.a, inner):
        return None
    return cast.a, Whole(product.b, part.a)


def _few(terms: x.Expr, more: x.Expr, counts: object) -> Few | None:
    """The form without what is added to weights, where `COUNTS_FROM` says what that changes."""
    if not isinstance(counts, int) or not (isinstance(terms, x.Binary) and terms.op == "*"):
        return None
    wide, data = terms.a, terms.b
    byte = wide.a if isinstance(wide, x.Cast) else None
    number = byte.a if isinstance(byte, x.Cast) else None
    if not (isinstance(number, x.Binary) and number.op == "+"):
        return None
    assert isinstance(wide, x.Cast) and isinstance(byte, x.Cast)
    plain = x.binary("*", cast(wide.dtype, cast(byte.dtype, number.a)), data)
    left = x.binary("-", const(counts, number.dtype), number.b)
    share = x.binary("*", cast("float32", left), const(1 / counts))
    return Few(plain, x.binary("*", more, share))


def _apart(e: x.Expr, inner: tuple[x.Axis, ...], last: x.Axis) -> Apart | None:
    """``data * (w - less)`` in two, where ``less`` is the same in a block."""
    if not (isinstance(e, x.Binary) and e.op == "*" and isinstance(e.b, x.Binary)):
        return None
    data, weight = e.a, e.b
    once = weight.op == "-" and not isinstance(weight.b, x.Const) and not _reads(weight.b, inner)
    if not once or _reads(data, (last,)):
        return None
    return Apart(x.binary("*", data, weight.a), data, weight.b)


def _reads(e: x.Expr, axes: tuple[x.Axis, ...]) -> bool:
    return any(n in axes for n in x.walk(e) if isinstance(n, x.Axis))
