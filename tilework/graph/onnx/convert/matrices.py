"""Matrix products."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from tilework.dtypes import NARROW_FLOATS
from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, value
from tilework.graph.operators import broadcast
from tilework.index.extents import Extent, known

_LARGEST_DETERMINANT = 64


def gemm(c: OnnxContext, node: NodeProto) -> str:
    """``alpha * a @ b + beta * c``; each matrix may be transposed."""
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


def _dense(c: OnnxContext, x: str, weight: str, transposed: bool, scale: float, name: str) -> str:
    """Product with a constant matrix, kept as [out, in]."""
    array = c.constants[weight]
    array = array if transposed else array.T  # a view: packing reads it in any order
    if scale != 1.0:
        array = (array * np.asarray(scale).astype(array.dtype)).astype(array.dtype)
    return c.op("dense", x, c.b.constant(array, weight), name=name)


def _matmul(c: OnnxContext, node: NodeProto) -> str:
    return product(c, c.value(node.input[0]), c.value(node.input[1]), node.output[0])


def product(c: OnnxContext, x: str, y: str, name: str) -> str:
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
        weight = c.b.constant(c.b.constants[y].T, y)
        z = c.op("dense", reshaped(c, x, rows), weight, name=name)
    elif math.prod(right[:-2]) == 1:
        matrix = reshaped(c, y, (right[-2], right[-1]) if len(right) > 1 else (-1, 1))
        flags = {"transpose_a": False, "transpose_b": False}
        z = c.op("matmul", reshaped(c, x, rows), matrix, name=name, **flags)
    else:
        letters = iter(string.ascii_lowercase)
        labels = [next(letters) for _ in range(max(len(left), len(right)) - 2)]
        m, n, k = (next(letters) for _ in "mnk")
        of_x = "".join(labels[len(labels) - len(left[:-2]) :]) + (m if len(left) > 1 else "") + k
        of_y = "".join(labels[len(labels) - len(right[:-2]) :]) + k + n
        out = "".join(labels) + (m if len(left) > 1 else "") + n
        z = c.op("einsum", x, y, name=name, equation=f"{of_x},{of_y}->{out}")
    return reshaped(c, z, result, name)


def reshaped(c: OnnxContext, value: str, shape: Sequence[Extent], name: str | None = None) -> str:
    """A value in another shape; one extent may be -1."""
    old = c.b.shape(value)
    known = math.prod(n for n in shape if n != -1)
    shape = tuple(math.prod(old) // known if n == -1 else n for n in shape)
    return value if old == shape else c.op("reshape", value, name=name, shape=shape)


def _einsum(c: OnnxContext, node: NodeProto) -> str:
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


def _det(c: OnnxContext, node: NodeProto) -> str:
    """The product of the pivots of Gauss's elimination, the largest of each column first.

    A step takes one row and one column off the matrices.
    """
    x = value(c, node.input[0])
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise Unsupported(f"matrices of shape {list(x.shape)} are not square")
    if x.shape[-1] > _LARGEST_DETERMINANT:
        raise Unsupported(f"matrices of over {_LARGEST_DETERMINANT} rows are too large")
    outer, computing = x.shape[:-2], x.cast("float32") if x.dtype in NARROW_FLOATS else x
    rest = computing.reshape(-1, *x.shape[-2:])
    count = rest.shape[0]
    product: Value | None = None
    for n in range(known(x.shape[-1]), 0, -1):
        column = rest.part(2, 0, 1)
        place = column.op("abs").op("argmax", axis=1, keepdims=True)  # [count, 1, 1]
        row = rest.op("take_along", place.op("expand", shape=(count, 1, n)), axis=1)
        pivot = row.part(2, 0, 1)
        swapped = place > 0
        factor = (pivot * -1).where(swapped, pivot)
        product = factor if product is None else product * factor
        if n == 1:
            break
        numbers = place.constant(np.arange(1, n).reshape(1, n - 1, 1))
        below = rest.part(1, 0, 1).where(numbers.op("equal", place), rest.part(1, 1, n - 1))
        divisor = pivot.constant(1).where(pivot.op("equal", 0), pivot)
        taken = row.part(2, 1, n - 1) * (below.part(2, 0, 1) / divisor)
        rest = below.part(2, 1, n - 1) - taken
    assert product is not None
    return product.cast(x.dtype).reshape(*outer).name


CONVERTERS: dict[str, Converter] = {
    "Det": _det,
    "Einsum": _einsum,
    "Gemm": gemm,
    "MatMul": _matmul,
}
