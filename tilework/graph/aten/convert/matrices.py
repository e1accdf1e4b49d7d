"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tilework.graph.aten.context import AtenContext, Converter, Value


def product(c: AtenContext, x: Value, y: Value) -> Value:
    """The product of two matrices; a constant right operand is kept as [out, in]."""
    weight = c.known(y)
    if weight is not None:
        return c.op("dense", x, c.constant(weight.T, y))
    return c.op("matmul", x, y, transpose_a=False, transpose_b=False)


_Product = Callable[[AtenContext, Value, Value], Value]


def _product(multiply: _Product) -> Converter:
    return lambda c, a, b: multiply(c, c.value(a), c.value(b))


def _product_and_sum(
    multiply: _Product,
    c: AtenContext,
    bias: Any,
    a: Any,
    b: Any,
    beta: Any = 1,
    alpha: Any = 1,
) -> Value:
    return _added(c, multiply(c, c.value(a), c.value(b)), c.value(bias), beta, alpha)


def _added(c: AtenContext, y: Value, bias: Value, beta: Any, alpha: Any) -> Value:
    dtype = c.dtype(y)
    if alpha != 1:
        y = c.op("multiply", y, c.number(alpha, dtype))
    if beta == 0:
        return y
    if beta != 1:
        bias = c.op("multiply", bias, c.number(beta, dtype))
    return c.op("add", y, bias)


def _stacked(c: AtenContext, x: Value, y: Value) -> Value:
    """Products of two stacks of matrices; where both were folded from more dimensions, of those.

    Exporters fold batch and heads into one dimension. Unfolded, transposes of heads in front of
    it become labels of the product.
    """
    left, right = _unfolded(c, x), _unfolded(c, y)
    if left is not None and right is not None:
        (xs, ys) = (c.shape(left), c.shape(right))
        if xs[:-2] == ys[:-2]:
            z = _einsum(c, left, right)
            return c.reshape(z, (-1, xs[-2], ys[-1]))
    return _einsum(c, x, y)


def _einsum(c: AtenContext, x: Value, y: Value) -> Value:
    batch = "abcdefgh"[: c.rank(x) - 2]
    return c.op("einsum", x, y, equation=f"{batch}mk,{batch}kn->{batch}mn")


def _unfolded(c: AtenContext, x: Value) -> Value | None:
    """What ``x`` was before its first dimension was folded from several."""
    node = c.b.node(x, "reshape")
    if node is None:
        return None
    old, new = c.b.shape(node.inputs[0]), c.b.shape(x)
    if 3 < len(old) <= 8 and old[-2:] == new[-2:]:
        return Value(node.inputs[0])
    return None


def _vector(c: AtenContext, a: Any, b: Any) -> Value:
    """A matrix or a vector times a vector."""
    x, y = c.value(a), c.value(b)
    rows = c.shape(x)[:-1]
    x = c.reshape(x, (math.prod(rows), c.shape(x)[-1]))
    return c.reshape(product(c, x, c.reshape(y, (-1, 1))), rows)


def _linear(c: AtenContext, x: Any, weight: Any, bias: Any = None) -> Value:
    return linear(c, c.value(x), weight, bias)


def linear(c: AtenContext, v: Value, weight: Any, bias: Any = None) -> Value:
    """Products of the last dimension with weights [out, in]; a bias."""
    w = c.value(weight)
    lead = c.shape(v)[:-1]
    v = c.reshape(v, (math.prod(lead), c.shape(v)[-1]))
    if c.known(w) is not None:
        y = c.op("dense", v, w)
    else:
        y = c.op("matmul", v, w, transpose_a=False, transpose_b=True)
    if bias is not None:
        y = c.op("add", y, c.value(bias))
    return c.reshape(y, (*lead, c.shape(w)[0]))


CONVERTERS: dict[str, Converter] = {
    "mm": _product(product),
    "addmm": partial(_product_and_sum, product),
    "bmm": _product(_stacked),
    "baddbmm": partial(_product_and_sum, _stacked),
    "mv": _vector,
    "dot": _vector,
    "linear": _linear,
}
