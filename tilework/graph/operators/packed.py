"""Weights of few bits, several in a word: `tilework.ops.packed`.

    packed_dense(x, q, scales; bits)        x[M, K] -> [M, N], q int32[N, blocks, words],
    packed_dense(x, q, scales, zeros; bits)     scales and zeros [N, blocks]
    unpack(q, scales, ...; bits, size)      the matrix [N, size] itself, of the type of the scales

A file's packed weights become ``unpack``; the pass `multiply_packed` makes ``packed_dense`` of
products that read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.graph.operators.base import (
    FLOATS,
    Attrs,
    Operator,
    Pattern,
    ValueType,
    common_dtype,
    declared,
)
from tilework.ops import packed

BITS = (4, 8)
"""Sizes of elements."""


def _checked(types: Sequence[ValueType], attrs: Attrs) -> int:
    """Elements of a row, with what the last block has beyond it."""
    if attrs["bits"] not in BITS:
        raise ValueError(f"packed numbers have 4 or 8 bits, not {attrs['bits']}")
    q, scales, *zeros = types
    if len(q.shape) != 3 or q.dtype != "int32" or len(zeros) > 1:
        raise ValueError("packed numbers are words of int32 [N, blocks, words], with two operands")
    for part in (scales, *zeros):
        if part.shape != q.shape[:2]:
            raise ValueError(f"{list(part.shape)} does not fit blocks {list(q.shape[:2])}")
    common_dtype([scales], FLOATS)
    for zero in zeros:
        common_dtype([zero], (*FLOATS, "uint8"))
    _, blocks, words = q.shape
    return int(blocks * words * (packed.WORD_BITS // attrs["bits"]))


def _infer_dense(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, *weights = types
    dtype, size = common_dtype([x], FLOATS), _checked(weights, attrs)
    if len(x.shape) != 2 or x.shape[1] != size:
        raise ValueError(f"data of shape {list(x.shape)} do not fit rows of {size} numbers")
    return ValueType((x.shape[0], types[1].shape[0]), dtype)


def _infer_unpack(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    if not 0 < attrs["size"] <= _checked(types, attrs):
        raise ValueError(f"the blocks do not hold {attrs['size']} numbers")
    return ValueType((types[0].shape[0], attrs["size"]), types[1].dtype)


def _declare_dense(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return packed.packed_dense(*t, bits=a["bits"], layout_free=free)


OPERATORS = (
    Operator("packed_dense", _infer_dense, _declare_dense, Pattern.ANCHOR),
    Operator("unpack", _infer_unpack, declared(packed.unpack, "bits", "size"), Pattern.INJECTIVE),
)
