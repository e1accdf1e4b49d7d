"""Element types that tensors are stored in, and in which their values are computed."""

from __future__ import annotations

from tilework import te
from tilework.dtypes import NARROW_FLOATS
from tilework.te.expr import Binary, Cast, Read
from tilework.te.tensor import Compute, Tensor, make_compute


def computed(e: te.Expr, sums: str = "") -> te.Expr:
    """The value as operators compute with it: narrow floats become float32, others stay.

    Args:
        e: the value.
        sums: the element type that products are summed in, where it is another.
    """
    if sums:
        return te.cast(sums, e)
    return te.cast("float32", e) if e.dtype in NARROW_FLOATS else e


def stored(x: te.Tensor, dtype: str) -> te.Tensor:
    """``x`` with elements of ``dtype``: itself, or a stage that converts it."""
    if x.dtype == dtype:
        return x
    return te.compute(x.shape, lambda *ax: te.cast(dtype, x[ax]), name="T_cast")


def tf32_if_product(x: te.Tensor) -> te.Tensor:
    """``x`` with factors rounded to tf32, if it sums products of two."""
    body = x.op.body if isinstance(x.op, Compute) else None
    sums = isinstance(body, te.Reduce) and body.kind == "sum" and is_product(body.source)
    return tf32_products(x) if sums else x


def tf32_products(x: te.Tensor) -> te.Tensor:
    """``x``, a sum of products of two factors, with both rounded to tf32 first.

    That is what tensor cores compute of float32; the products are exact, and summed in float32.

    Raises:
        TypeError: ``x`` is no such sum, or its factors are not float32.
    """
    op = x.op
    body = op.body if isinstance(op, Compute) else None
    source = body.source if isinstance(body, te.Reduce) and body.kind == "sum" else None
    if not (isinstance(op, Compute) and isinstance(body, te.Reduce) and is_product(source)):
        raise TypeError(f"tf32: {x.name} is not a sum of products of two factors")
    assert isinstance(source, Binary)
    if source.dtype != "float32":
        raise TypeError(
            f"tf32: {x.name} multiplies {source.dtype}; only float32 is rounded to tf32"
        )
    rounded = te.round_tf32(source.a) * te.round_tf32(source.b)
    new = te.Reduce(body.dtype, body.kind, rounded, body.axes, body.limits)
    return Tensor(make_compute(op.name, op.axes, new, op.attrs))


WEIGHTS_OF_7_BITS = 64
"""Their largest magnitude: with it, sums of two products of bytes fit 16 bits."""


def bounded_products(x: te.Tensor) -> te.Tensor:
    """``x``, a sum of products of bytes, with the signed ones brought into the range of 7 bits.

    Weights are there already. That the declaration says so lets instructions be used whose sums of
    two products have 16 bits.
    """
    op, most = x.op, WEIGHTS_OF_7_BITS
    body = op.body if isinstance(op, Compute) else None
    source = body.source if isinstance(body, te.Reduce) and body.kind == "sum" else None
    if not (isinstance(op, Compute) and isinstance(body, te.Reduce) and is_product(source)):
        return x
    assert isinstance(source, Binary)

    def factor(e: te.Expr) -> te.Expr:
        if not (isinstance(e, Cast) and isinstance(e.a, Read) and e.a.dtype == "int8"):
            return e
        return te.cast(e.dtype, te.maximum(te.minimum(e.a, most), -most))

    product = factor(source.a) * factor(source.b)
    new = te.Reduce(body.dtype, body.kind, product, body.axes, body.limits)
    return Tensor(make_compute(op.name, op.axes, new, op.attrs))


def is_product(e: te.Expr | None) -> bool:
    """Whether an expression is one factor times another."""
    return isinstance(e, Binary) and e.op == "*"
