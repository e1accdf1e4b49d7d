"""Products with weights of 4 and 8 bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.matrices import product
from tilework.graph.onnx.convert.packed import unpacked
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import room
from tilework.graph.operators.packed import BITS

_LEAST_BLOCK = 16


def _matmul_nbits(c: OnnxContext, node: NodeProto) -> str:
    """``x`` [.., K] times the transposed matrix [N, K] of few bits, and a bias.

    ``accuracy_level`` says how inexactly one may compute: with data of 8 bits at 4, in float32
    else.
    """
    a = attributes(node)
    k, n, bits, block = (int(a.get(v, d)) for v, d in _SIZES.items())
    _check_sizes(k, n, bits, block, a)
    x, blocks = c.value(node.input[0]), -(-k // block)
    if c.b.shape(x)[-1:] != (k,):
        raise Unsupported(f"data of shape {list(c.b.shape(x))} do not fit K = {k}")
    q = _array(c, node.input[1], "the weights", n * blocks * (block * bits // 8), ("uint8",))
    dtype = c.b.types[x].dtype
    scales = _array(c, node.input[2], "the scales", n * blocks, (dtype,))
    if not np.isfinite(scales.astype(np.float64)).all():
        raise Unsupported(f"the scales '{node.input[2]}' hold numbers that are not finite")
    _check_order(c, optional(node, 4), k, block)
    zeros = _zeros(c, optional(node, 3), n, blocks, bits, dtype)
    as_bytes = int(a.get("accuracy_level", 0)) == _DATA_OF_8_BITS and block <= _LONGEST_BLOCK
    parts = q.reshape(n, blocks, -1), scales.reshape(n, blocks), zeros
    if bits == _NARROW:
        bits, parts = BITS[0], (_wider(parts[0]), parts[1], None if zeros is None else zeros + _UP)
    w = unpacked(c, *parts, bits, k, as_bytes)
    name, bias = node.output[0], optional(node, 5)
    y = product(c, x, w.transpose(1, 0).name, name)
    return c.op("add", y, c.value(bias), name=f"{name}_biased") if bias else y


_NARROW, _UP = 2, 6
"""Bits that are kept as 4; what they are moved by, so that the middle of their range, 2, is 8."""
_DATA_OF_8_BITS = 4
"""The level."""
_LONGEST_BLOCK = 1 << 16
"""Sums of more products of two bytes might leave int32."""
_SIZES = {"K": 0, "N": 0, "bits": 4, "block_size": 0}
"""Attributes, and what they are where they are absent."""


def _check_sizes(k: int, n: int, bits: int, block: int, a: dict[str, Any]) -> None:
    if k < 1 or n < 1:
        raise Unsupported(f"a matrix of {n} x {k} numbers")
    if bits not in (_NARROW, *BITS):
        raise Unsupported(f"weights of {bits} bits are not supported; those of 2, 4 and 8 are")
    if block < _LEAST_BLOCK or block & (block - 1):
        raise Unsupported(f"blocks of {block} numbers; a power of 2 from {_LEAST_BLOCK} on is one")
    if int(a.get("weight_prepacked", 0)):
        raise Unsupported("weights in the order of one machine are not supported")


def _array(
    c: OnnxContext, name: str, what: str, size: int, dtypes: tuple[str, ...]
) -> NDArray[Any]:
    """A constant of so many elements."""
    array = c.array(name, f"{what} '{name}'")
    if array.dtype.name not in dtypes:
        raise Unsupported(f"{what} '{name}' are {array.dtype}, not {' or '.join(dtypes)}")
    if array.size != size:
        raise Unsupported(f"{what} '{name}' are {array.size} elements, and should be {size}")
    return array


def _zeros(
    c: OnnxContext, name: str, n: int, blocks: int, bits: int, dtype: str
) -> NDArray[Any] | None:
    """Zero points [N, blocks]: of a type of their own, or packed like the weights."""
    if not name:
        return None
    packed = c.array(name, f"the zero points '{name}'").dtype == np.uint8
    width = -(-blocks * bits // 8) if packed else blocks
    array = _array(c, name, "the zero points", n * width, ("uint8", dtype)).reshape(n, width)
    if packed:
        array = _numbers(array, bits)
    return np.ascontiguousarray(array[:, :blocks])


def _numbers(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Numbers of the last dimension, one in a byte each; the lowest bits come first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    each = packed[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return each.reshape(*packed.shape[:-1], -1)


def _wider(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Numbers of 2 bits as those of 4, moved by `_UP`."""
    numbers = _numbers(packed, _NARROW) + np.uint8(_UP)
    return numbers[..., ::2] | numbers[..., 1::2] << np.uint8(4)


def _check_order(c: OnnxContext, name: str, k: int, block: int) -> None:
    """Accept indices of groups that say what is so without them."""
    if not name:
        return
    order = c.array(name, f"the indices of groups '{name}'").reshape(-1)
    plain = np.arange(math.ceil(k / block) * block) // block
    if len(order) < k or (order[:k] != plain[:k]).any():
        raise Unsupported(f"groups in another order ('{name}') are not supported")


def _matmul_bnb4(c: OnnxContext, node: NodeProto) -> str:
    """``x`` [.., K] times the transposed matrix [N, K] of numbers of 4 bits from a table.

    Neighbours in the matrix, row by row, share the largest magnitude. It is unpacked at import.
    """
    a = attributes(node)
    k, n, block, kind = (int(a.get(v, 0)) for v in ("K", "N", "block_size", "quant_type"))
    if k < 1 or n < 1 or block < 1 or kind not in (0, 1):
        raise Unsupported(f"{n} x {k} numbers in blocks of {block}, of table {kind}")
    x, size = c.value(node.input[0]), n * k
    if c.b.shape(x)[-1:] != (k,):
        raise Unsupported(f"data of shape {list(c.b.shape(x))} do not fit K = {k}")
    dtype = c.b.types[x].dtype
    packed = _array(c, node.input[1], "the weights", -(-size // 2), ("uint8",)).reshape(-1)
    peaks = _array(c, node.input[2], "the largest magnitudes", -(-size // block), (dtype,))
    room(c, size)
    each = np.stack((packed >> np.uint8(4), packed & np.uint8(15)), 1).reshape(-1)[:size]
    of_blocks = np.repeat(peaks.reshape(-1).astype(np.float32), block)[:size]
    weights = (_TABLES[kind][each] * of_blocks).astype(peaks.dtype).reshape(n, k)
    return product(c, x, c.b.constant(weights.T, "weights"), node.output[0])


_FLOAT4 = np.array([0, 0.00520833333, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25], np.float32)
_TABLES = (
    np.concatenate([_FLOAT4, -_FLOAT4]),
    np.array(
        [
            -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
            -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
            0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
            0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
        ],
        np.float32,
    ),
)  # fmt: skip
"""What numbers of 4 bits mean: a float of 4 bits, and quantiles of a normal distribution."""

CONVERTERS: dict[str, Converter] = {"MatMulBnb4": _matmul_bnb4, "MatMulNBits": _matmul_nbits}
