"""How many operations a node of an ONNX graph takes: an estimate, from shapes alone.

A multiply-add counts twice, as everywhere. It tells how a model's work is shared out between two
engines, and is the same for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilework.graph.onnx.context import attributes
from tilework.graph.onnx.protos import NodeProto

Shape = tuple[int, ...]
ShapeOf = Callable[[str], "Shape | None"]
"""The extents of a value, if they are known before a run."""

_Shapes = Sequence["Shape | None"]
_Rule = Callable[[_Shapes, Sequence[Shape], "dict[str, Any]"], int]


def _of(xs: _Shapes, number: int) -> Shape:
    """The shape of an input.

    Raises:
        ValueError: it is not known.
        IndexError: there is no such input.
    """
    shape = xs[number]
    if shape is None:
        raise ValueError(f"the shape of input {number} is not known")
    return shape


def _conv(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(ys[0]) * math.prod(_of(xs, 1)[1:])


def _quantized_conv(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(ys[0]) * math.prod(_of(xs, 3)[1:])


def _conv_transpose(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(_of(xs, 0)) * math.prod(_of(xs, 1)[1:])


def _matmul(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(ys[0]) * _of(xs, 0)[-1]


def _fused_matmul(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(ys[0]) * _of(xs, 0)[-2 if a.get("transA") else -1]


def _gemm(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 2 * math.prod(ys[0]) * _of(xs, 0)[0 if a.get("transA") else 1]


def _recurrent(gates: int, xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    first, second, size = _of(xs, 0)  # time and batch, in either order
    directions, *sides = _of(xs, 2)
    hidden = min(sides)  # one is of all gates: in ONNX Runtime's quantised layers the last one
    return 2 * first * second * directions * gates * hidden * (size + hidden)


def _einsum(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    equation: str = a["equation"]
    terms = equation.replace(" ", "").split("->")[0].split(",")
    shapes = [_of(xs, number) for number in range(len(xs))]
    extents = {c: n for t, x in zip(terms, shapes, strict=True) for c, n in zip(t, x, strict=True)}
    return 2 * math.prod(extents.values())


def _attention(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    past = xs[4] if len(xs) > 4 else None
    keys = _of(xs, 1)[-2] + (past[-2] if past else 0)  # those of the past as well
    return 4 * math.prod(_of(xs, 0)) * keys


def _nothing(xs: _Shapes, ys: Sequence[Shape], a: dict[str, Any]) -> int:
    return 0


_RULES: dict[str, _Rule] = {
    "Conv": _conv,
    "FusedConv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _quantized_conv,
    "DeformConv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "FusedMatMul": _fused_matmul,
    "Gemm": _gemm,
    "RNN": partial(_recurrent, 1),
    "GRU": partial(_recurrent, 3),
    "DynamicQuantizeLSTM": partial(_recurrent, 4),
    "LSTM": partial(_recurrent, 4),
    "Einsum": _einsum,
    "Attention": _attention,
    **dict.fromkeys(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape"), _nothing),
}

PRODUCTS = frozenset(k for k, rule in _RULES.items() if rule is not _nothing)
"""Operators that are sums of products."""

_MANY = 2**16
"""Elements whose computing is worth a part, whatever is computed."""

HEAVY = PRODUCTS | {
    "BatchNormalization", "GlobalAveragePool", "GroupNormalization", "InstanceNormalization",
    "LayerNormalization", "LogSoftmax", "MaxPool", "AveragePool", "RMSNormalization", "Softmax",
}  # fmt: skip
"""Operators that are worth a part of ours."""

_MOVES = {
    "Cast", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Pad", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that compute nothing: not worth one, however much they move."""

_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")


def operations(node: NodeProto, shape_of: ShapeOf) -> int | None:
    """The operations of a node: by a formula for products, else one for each element it computes.

    Returns:
        None where some shape is known only while it runs, and for nodes with graphs of their own.
    """
    if node.op_type in _GRAPHS:
        return None
    xs = [shape_of(i) if i else None for i in node.input]
    ys = [shape_of(o) for o in node.output if o]
    known = [y for y in ys if y is not None]
    rule = _RULES.get(node.op_type)
    if rule is not None and len(known) == len(ys):
        try:
            return rule(xs, known, attributes(node))
        except (TypeError, ValueError, IndexError, KeyError):  # a shape that is missing, or odd
            return None
    return sum(map(math.prod, known)) if rule is None and len(known) == len(ys) else None


def worth_a_part(nodes: Sequence[NodeProto], shape_of: ShapeOf) -> bool:
    """Whether it pays to compute some nodes apart from those around them."""
    if any(n.op_type in HEAVY for n in nodes):
        return True
    computing = [n for n in nodes if n.op_type not in _MOVES]
    shapes = (shape_of(o) for n in computing for o in n.output if o)
    return sum(math.prod(s) for s in shapes if s is not None) >= _MANY
