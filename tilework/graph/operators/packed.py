"""Weights of few bits, several in a word: `tilework.ops.packed`.

    packed_dense(x, q, scales; bits)        x[M, K] -> [M, N], q int32[N, blocks, words],
    packed_dense(x, q, scales, zeros; bits)     scales and zeros [N, blocks]
    unpack(q, scales, ...; bits, size)      the matrix [N, size] itself, of the type of the scales

A file's packed weights become ``unpack``; the pass `multiply_packed` makes ``packed_dense`` of
products that read it. Where ``unpack`` has the attribute ``data="int8"``, products may round their
data to bytes (`tilework.ops.block_bytes`), with a scale for each block:

    block_peaks(x; block)                   x[M, K] -> float32 [M, K / block]
    block_bytes(x, peaks)                   -> int8 [K / block, M, block]
    block_scales(peaks)                     -> float32 [M, K / block]
    block_totals(bytes, scales; times)      -> float32 [M, K / block]
    byte_dense(bytes, scales, totals, q, scales, ...; bits, dtype)    -> [M, N]
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.graph.operators.base import (
    FLOATS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    ValueType,
    common_dtype,
    declared,
)
from tilework.index.extents import known, size
from tilework.ops import block_bytes, packed

BITS = (4, 8)
"""Sizes of elements."""
_LARGE = 1 << 17
"""So many weights, as floats, fill the second cache."""


def large_bytes(shape: Shape) -> bool:
    """Whether a matrix of bytes is worth being multiplied as such, by data in float."""
    return len(shape) == 2 and size(shape) >= _LARGE


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


def _infer_peaks(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,), block = types, attrs["block"]
    common_dtype([x], FLOATS)
    if len(x.shape) != 2 or block < 1 or x.shape[1] % block != 0:
        raise ValueError(f"data of shape {list(x.shape)} have no blocks of {block}")
    return ValueType((x.shape[0], x.shape[1] // block), "float32")


def _infer_bytes(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, peaks = types
    common_dtype([x], FLOATS)
    if len(x.shape) != 2 or len(peaks.shape) != 2 or x.shape[0] != peaks.shape[0]:
        raise ValueError(f"peaks {list(peaks.shape)} do not fit data {list(x.shape)}")
    size, blocks = known(x.shape[1]), known(peaks.shape[1])
    if size % blocks != 0:
        raise ValueError(f"data of shape {list(x.shape)} have no {blocks} blocks")
    return ValueType((blocks, x.shape[0], size // blocks), "int8")


def _infer_scales(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (peaks,) = types
    return ValueType(peaks.shape, common_dtype([peaks], ("float32",)))


def _infer_totals(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    q, scales = types
    common_dtype([q], ("int8",))
    if len(q.shape) != 3 or scales.shape != q.shape[1::-1]:
        raise ValueError(f"{list(scales.shape)} does not fit blocks {list(q.shape)}")
    return ValueType(scales.shape, common_dtype([scales], ("float32",)))


def _infer_byte_dense(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    q, scales, totals, *weights = types
    size, dtype = _checked(weights, attrs), attrs["dtype"]
    common_dtype([q], ("int8",))
    common_dtype([scales, totals], ("float32",))
    blocks = weights[0].shape[1]
    if len(q.shape) != 3 or q.shape[0] != blocks or blocks * q.shape[2] != size:
        raise ValueError(f"data of shape {list(q.shape)} do not fit rows of {size} numbers")
    if any(t.shape != q.shape[1::-1] for t in (scales, totals)) or dtype not in FLOATS:
        raise ValueError(f"scales {list(scales.shape)} do not fit blocks {list(q.shape)}")
    return ValueType((q.shape[1], weights[0].shape[0]), dtype)


def _declare_byte_dense(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return packed.byte_dense(*t, bits=a["bits"], layout_free=True)


def _declare_dense(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return packed.packed_dense(*t, bits=a["bits"], layout_free=free)


OPERATORS = (
    Operator("packed_dense", _infer_dense, _declare_dense, Pattern.ANCHOR),
    Operator(
        "block_peaks", _infer_peaks, declared(block_bytes.block_peaks, "block"), Pattern.ANCHOR
    ),
    Operator("block_bytes", _infer_bytes, declared(block_bytes.block_bytes), Pattern.OPAQUE),
    Operator(
        "block_scales", _infer_scales, declared(block_bytes.block_scales), Pattern.ELEMENTWISE
    ),
    Operator(
        "block_totals", _infer_totals, declared(block_bytes.block_totals, "times"), Pattern.ANCHOR
    ),
    Operator("byte_dense", _infer_byte_dense, _declare_byte_dense, Pattern.ANCHOR),
    Operator("unpack", _infer_unpack, declared(packed.unpack, "bits", "size"), Pattern.INJECTIVE),
)
