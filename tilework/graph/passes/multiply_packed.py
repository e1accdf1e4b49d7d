"""Products with packed weights unpack them as they multiply."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.base import BYTES
from tilework.graph.operators.packed import large_bytes
from tilework.index.extents import known
from tilework.index.symbols import range_of
from tilework.ops.packed import WORD_BITS, byte_order
from tilework.runtime.content import let_go


def multiply_packed(net: Network) -> Network:
    """Products read packed weights instead of a matrix that they are unpacked to.

    rewrite:
        dense(x, unpack(q, scales, ..))              ->  packed_dense(x, q, scales, ..)
        matmul(x, transpose(unpack(q, scales, ..)))  ->  packed_dense(x, q, scales, ..)
        dense(x, dequantize(q, scales, zeros))       ->  packed_dense(x, q', scales, zeros)

    The last is of large constants of 8 bits with a scale for all or for each output channel, of
    which `integer_products` made no product of bytes, where rows may be few.

    Data are filled up with zeros where the last block is. Where weights let them be rounded to
    bytes, they are, and the product is ``byte_dense``. What no product reads along its blocks
    stays, and is unpacked when the network is compiled.
    """
    if not any(n.op in ("unpack", "dequantize") for n in net.nodes):
        return net
    ordered: dict[str, str] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op not in ("dense", "matmul") or "sums" in node.attrs:
            return None
        unpack = _packed(b, node, inputs) or _of_words(b, node, inputs)
        if unpack is None:
            return None
        x = inputs[0]
        if node.attrs.get("transpose_a"):
            x = b.op("transpose", x, perm=(1, 0))
        bits, (_, blocks, words) = unpack.attrs["bits"], b.shape(unpack.inputs[0])
        after = blocks * words * (WORD_BITS // bits) - unpack.attrs["size"]
        if after:
            x = b.op("pad", x, before=(0, 0), after=(0, after), value=0.0)
        if unpack.attrs.get("data") != "int8":
            return b.op("packed_dense", x, *unpack.inputs, name=node.name, bits=bits)
        q, *others = unpack.inputs
        if q not in ordered:
            ordered[q] = b.constant(byte_order(b.constants[q], bits), f"{q}_bytes")
            let_go(b.constants[q])
        return _of_bytes(b, node.name, x, (ordered[q], *others), bits)

    return rewrite(net, rule)


def _of_bytes(b: Builder, name: str, x: str, weights: tuple[str, ...], bits: int) -> str:
    """A product of data that are rounded to bytes; those of one value are found once."""
    words = b.shape(weights[0])[-1]
    peaks = b.op("block_peaks", x, block=known(words) * (WORD_BITS // bits))
    data, scales = b.op("block_bytes", x, peaks), b.op("block_scales", peaks)
    middle = 1 if len(weights) > 2 else 1 << (bits - 1)
    totals = b.op("block_totals", data, scales, times=-float(middle))
    dtype = b.types[x].dtype
    return b.op("byte_dense", data, scales, totals, *weights, name=name, bits=bits, dtype=dtype)


def _packed(b: Builder, node: Node, inputs: tuple[str, ...]) -> Node | None:
    """The packed weights that a product reads along their blocks."""
    value, along = inputs[1], node.op == "dense" or bool(node.attrs.get("transpose_b"))
    while True:
        producer = b.node(value, "transpose", "unpack")
        if producer is None or producer.op == "unpack":
            constant = producer is not None and all(v in b.constants for v in producer.inputs)
            return producer if along and constant else None
        value, along = producer.inputs[0], along != (producer.attrs["perm"] == (1, 0))


_FEW_ROWS = 8
"""Products of so few rows wait for memory: large matrices of bytes take 0.4 (one row) to 0.9 of
the time of floats; with 16 rows 1.5 times as long (AVX2)."""
_MIDDLE = 128
"""Of the range of a byte: what signed numbers are moved by."""


def _of_words(b: Builder, node: Node, inputs: tuple[str, ...]) -> Node | None:
    """Dequantised bytes that a product reads along its sum, as packed weights of one block."""
    value, along = inputs[1], node.op == "dense" or bool(node.attrs.get("transpose_b"))
    producer = b.node(value, "transpose", "dequantize")
    if producer is not None and producer.op == "transpose":
        along = along != (producer.attrs["perm"] == (1, 0))
        producer = b.node(producer.inputs[0], "dequantize")
    if producer is None or any(v not in b.constants for v in producer.inputs):
        return None
    rows = b.shape(inputs[0])[1 if node.attrs.get("transpose_a") else 0]
    q, scales, zeros = (b.constants[v] for v in producer.inputs)
    if range_of(rows)[0] > _FEW_ROWS or not large_bytes(q.shape):
        return None
    if q.dtype.name not in BYTES or zeros.dtype != q.dtype:
        return None
    if not along:
        q, scales, zeros = (a.T if a.ndim == 2 else a for a in (q, scales, zeros))
    n, k = q.shape
    by_row = [_by_row(a, n) for a in (scales, zeros)]
    if by_row[0] is None or by_row[1] is None:
        return None
    per = WORD_BITS // 8
    numbers = np.zeros((n, -(-k // per) * per), np.uint8)
    numbers[:, :k] = _unsigned(q)
    parts = [numbers.view("<i4").astype(np.int32, copy=False)[:, None], by_row[0]]
    if (_unsigned(by_row[1]) != _MIDDLE).any():
        parts.append(_unsigned(by_row[1]))
    names = tuple(b.constant(a, f"{node.name}_packed") for a in parts)
    return Node("unpack", names, f"{node.name}_unpacked", {"bits": 8, "size": k})


def _unsigned(a: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes as uint8, of which those with a sign are moved."""
    return a.view(np.uint8) ^ np.uint8(_MIDDLE) if a.dtype == np.int8 else a.astype(np.uint8)


def _by_row(a: NDArray[Any], n: int) -> NDArray[Any] | None:
    """Numbers [n, 1] of a vector of that form, or of one number; None of any other."""
    if a.size == 1:
        return np.full((n, 1), a.reshape(())[()])
    return np.ascontiguousarray(a) if a.shape == (n, 1) else None
