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
    scalar,
)
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
            y = c.op("multiply", y, scalar(c, alpha))
    bias = optional(node, 2)
    if not bias or beta == 0.0:
        return y
    if beta == 1.0:
        return c.op("add", y, c.value(bias), name=f"{name}_biased")
    if bias in c.constants:
        c.value(bias)
        scaled = (c.constants[bias].astype(np.float64) * beta).astype(np.float32)
        return c.op("add", y, c.b.constant(scaled, bias), name=f"{name}_biased")
    return c.op("add", y, c.op("multiply", c.value(bias), scalar(c, beta)))


def _dense(c: Context, x: str, weight: str, transposed: bool, scale: float, name: str) -> str:
    """Product with a constant matrix, kept as [out, in]."""
    c.value(weight)  # checks the dtype
    array = c.constants[weight]
    array = np.ascontiguousarray(array if transposed else array.T)
    if scale != 1.0:
        array = (array * np.float32(scale)).astype(np.float32)
    return c.op("dense", x, c.b.constant(array, weight), name=name)


def _matmul(c: Context, node: onnx.NodeProto) -> str:
    """A product as NumPy's: vectors, matrices, and stacks of matrices that broadcast."""
    a, b = node.input[0], node.input[1]
    left, right, name = c.shape(a), c.shape(b), node.output[0]
    if not left or not right:
        raise Unsupported("the product of a scalar")
    result = (
        *broadcast((left[:-2], right[:-2])),
        *left[-2:-1],
        *(right[-1:] if len(right) > 1 else ()),
    )
    if b in c.constants and len(right) == 2:
        y = _dense(c, _rows(c, a), b, False, 1.0, name)
    elif math.prod(right[:-2]) == 1:
        matrix = _reshaped(c, c.value(b), (right[-2], right[-1]) if len(right) > 1 else (-1, 1))
        y = c.op("matmul", _rows(c, a), matrix, name=name, transpose_a=False, transpose_b=False)
    else:
        letters = iter(string.ascii_lowercase)
        labels = [next(letters) for _ in range(max(len(left), len(right)) - 2)]
        m, n, k = (next(letters) for _ in "mnk")
        of_a = "".join(labels[len(labels) - len(left[:-2]) :]) + (m if len(left) > 1 else "") + k
        of_b = "".join(labels[len(labels) - len(right[:-2]) :]) + k + n
        out = "".join(labels) + (m if len(left) > 1 else "") + n
        y = c.op("einsum", c.value(a), c.value(b), name=name, equation=f"{of_a},{of_b}->{out}")
    return _reshaped(c, y, result, name)


def _rows(c: Context, name: str) -> str:
    """The value as a matrix whose columns are its last dimension."""
    shape = c.shape(name)
    return _reshaped(c, c.value(name), (math.prod(shape[:-1]), shape[-1]))


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
}
