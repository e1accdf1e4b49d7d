"""Matrix products."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.context import (
    Context,
    Converter,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.normal import like
from tilework.graph.operators import broadcast

if TYPE_CHECKING:
    import onnx


def _gemm(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    x, w = node.input[0], node.input[1]
    name = node.output[0]
    alpha, beta = float(a.get("alpha", 1.0)), float(a.get("beta", 1.0))
    trans_a, trans_b = bool(a.get("transA", 0)), bool(a.get("transB", 0))
    if c.rank(x) != 2 or c.rank(w) != 2:
        raise Unsupported("both operands must be matrices")
    if w in c.constants and not trans_a:
        y = _dense(c, c.value(x), w, trans_b, alpha, name)
    else:
        y = c.op(
            "matmul",
            c.value(x),
            c.value(w),
            name=name,
            transpose_a=trans_a,
            transpose_b=trans_b,
        )
        if alpha != 1.0:
            y = c.op("multiply", y, like(c, alpha, y))
    bias = optional(node, 2)
    if not bias or beta == 0.0:
        return y
    if beta == 1.0:
        return c.op("add", y, c.value(bias), name=f"{name}_biased")
    if bias in c.constants:
        array = c.constants[bias]
        scaled = (array.astype(np.float64) * beta).astype(array.dtype)
        return c.op("add", y, c.b.constant(scaled, bias), name=f"{name}_biased")
    return c.op("add", y, c.op("multiply", c.value(bias), like(c, beta, y)))


def _dense(c: Context, x: str, weight: str, transposed: bool, scale: float, name: str) -> str:
    """Product with a constant matrix, kept as [out, in]."""
    array = c.constants[weight]
    array = np.ascontiguousarray(array if transposed else array.T)
    if scale != 1.0:
        array = (array * np.asarray(scale).astype(array.dtype)).astype(array.dtype)
    return c.op("dense", x, c.b.constant(array, weight), name=name)


def _matmul(c: Context, node: onnx.NodeProto) -> str:
    return product(c, c.value(node.input[0]), c.value(node.input[1]), node.output[0])


def product(c: Context, x: str, y: str, name: str) -> str:
    """A product as NumPy's: vectors, matrices, and stacks of matrices that broadcast.

    Raises:
        Unsupported: an operand is a scalar, or they do not fit.
    """
    left, right = c.b.shape(x), c.b.shape(y)
    if not left or not right:
        raise Unsupported("the product of a scalar")
    result = (
        *broadcast((left[:-2], right[:-2])),
        *left[-2:-1],
        *(right[-1:] if len(right) > 1 else ()),
    )
    rows = (math.prod(left[:-1]), left[-1])
    if y in c.b.constants and len(right) == 2:
        weight = c.b.constant(np.ascontiguousarray(c.b.constants[y].T), y)
        z = c.op("dense", _reshaped(c, x, rows), weight, name=name)
    elif math.prod(right[:-2]) == 1:
        matrix = _reshaped(c, y, (right[-2], right[-1]) if len(right) > 1 else (-1, 1))
        flags = {"transpose_a": False, "transpose_b": False}
        z = c.op("matmul", _reshaped(c, x, rows), matrix, name=name, **flags)
    else:
        letters = iter(string.ascii_lowercase)
        labels = [next(letters) for _ in range(max(len(left), len(right)) - 2)]
        m, n, k = (next(letters) for _ in "mnk")
        of_x = "".join(labels[len(labels) - len(left[:-2]) :]) + (m if len(left) > 1 else "") + k
        of_y = "".join(labels[len(labels) - len(right[:-2]) :]) + k + n
        out = "".join(labels) + (m if len(left) > 1 else "") + n
        z = c.op("einsum", x, y, name=name, equation=f"{of_x},{of_y}->{out}")
    return _reshaped(c, z, result, name)


def _matmul_integer(c: Context, node: onnx.NodeProto) -> str:
    a, b = (_shifted(c, node.input[i], optional(node, i + 2), column=i == 0) for i in range(2))
    return product(c, a, b, node.output[0])


def _quantized_matmul(c: Context, node: onnx.NodeProto) -> str:
    """``(a - za) (b - zb) sa sb / sy + zy``, rounded to the nearest and limited to the type."""
    a, b = (_shifted(c, node.input[i], node.input[i + 2], column=i == 0) for i in (0, 3))
    y = c.op("cast", product(c, a, b, f"{node.output[0]}_sum"), to="float32")
    for i, op in ((1, "multiply"), (4, "multiply"), (6, "divide")):
        scale = c.op("cast", c.value(node.input[i]), to="float32")
        y = c.op(op, y, _per_row(c, scale) if i == 1 else scale)
    zero = c.value(node.input[7])
    dtype = c.b.types[zero].dtype
    y = c.op("add", c.op("round", y), c.op("cast", zero, to="float32"))
    limits = np.iinfo(dtype)
    y = c.op("clip", y, low=float(limits.min), high=float(limits.max))
    return c.op("cast", y, name=node.output[0], to=dtype)


def _shifted(c: Context, name: str, zero: str, column: bool) -> str:
    """An integer operand as int32 with its zero point subtracted."""
    x = c.op("cast", c.value(name), to="int32")
    if not zero:
        return x
    point = c.op("cast", c.value(zero), to="int32")
    return c.op("subtract", x, _per_row(c, point) if column else point)


def _per_row(c: Context, value: str) -> str:
    """One number for each row of a matrix as a column; a single number as it is."""
    shape = c.b.shape(value)
    return _reshaped(c, value, (*shape, 1)) if len(shape) == 1 and shape[0] > 1 else value


def _reshaped(c: Context, value: str, shape: Sequence[int], name: str | None = None) -> str:
    old = c.b.shape(value)
    known = math.prod(n for n in shape if n != -1)
    shape = tuple(math.prod(old) // known if n == -1 else n for n in shape)
    return value if old == shape else c.op("reshape", value, name=name, shape=shape)


def _einsum(c: Context, node: onnx.NodeProto) -> str:
    """A sum of products, two operands at a time."""
    shapes = [c.shape(i) for i in node.input]
    labels, result = explicit(attributes(node)["equation"], [len(s) for s in shapes])
    terms = [(names, c.value(i)) for names, i in zip(labels, node.input, strict=True)]
    for i, (names, x) in enumerate(terms):
        elsewhere = "".join(labels[:i] + labels[i + 1 :]) + result
        own = "".join(n for n in dict.fromkeys(names) if n in elsewhere)
        if own != names and len(terms) > 1:  # a diagonal, or a sum of its own
            terms[i] = (own, c.op("einsum", x, equation=f"{names}->{own}"))
    while len(terms) > 2:
        (left, x), (right, y), *rest = terms
        later = "".join(n for n, _ in rest) + result
        kept = "".join(n for n in dict.fromkeys(left + right) if n in later)
        terms = [(kept, c.op("einsum", x, y, equation=f"{left},{right}->{kept}")), *rest]
    if len(terms) == 2 and terms[0][1] in c.b.constants:
        terms.reverse()  # the schedule may rearrange a constant second operand
    equation = f"{','.join(n for n, _ in terms)}->{result}"
    if len(terms) == 1 and sorted(terms[0][0]) == sorted(result):
        perm = tuple(terms[0][0].index(n) for n in result)
        return c.op("transpose", terms[0][1], name=node.output[0], perm=perm)
    return c.op("einsum", *(x for _, x in terms), name=node.output[0], equation=equation)


def explicit(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of the operands and of the result: ellipses spelled out, the result named.

    Without an arrow the result has the dimensions of the ellipses, then the labels that occur
    once, in the order of the alphabet.

    Raises:
        ValueError: the equation has no such form, or does not fit operands of these ranks.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(ranks):
        raise ValueError(f"'{equation}' does not have {len(ranks)} operands")
    spans = [
        r - len(o.replace("...", "")) if "..." in o else 0
        for o, r in zip(operands, ranks, strict=True)
    ]
    unused = [n for n in string.ascii_letters if n not in equation]
    if min(spans) < 0 or max(spans) > len(unused):
        raise ValueError(f"'{equation}' does not fit operands of {list(ranks)} dimensions")
    dots = "".join(unused[: max(spans)])
    labels = [
        o.replace("...", dots[len(dots) - n :], 1) for o, n in zip(operands, spans, strict=True)
    ]
    if any(len(names) != rank for names, rank in zip(labels, ranks, strict=True)):
        raise ValueError(f"'{equation}' does not fit operands of {list(ranks)} dimensions")
    if arrow:
        return labels, result.replace("...", dots, 1)
    flat = "".join(o.replace("...", "") for o in operands)
    return labels, dots + "".join(n for n in sorted(set(flat)) if flat.count(n) == 1)


CONVERTERS: dict[str, Converter] = {
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _quantized_matmul,
}
