"""Packed weights, written out: the numbers of bytes by division, for every engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer
from tilework.index.extents import Extent, known, known_shape
from tilework.ops.block_bytes import LEAST, TOP
from tilework.ops.packed import WORD_BITS

_BYTE = 8
_BYTES = WORD_BITS // _BYTE


def _unpack(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    size, dtype = node.attrs["size"], w.net.types[node.name].dtype
    bits = node.attrs["bits"]
    whole = _matrix(w, bits, node.inputs, inputs, out, _in_order(bits))
    part = (("begin", 0), ("end", size), ("axis", 1))
    bounds = [w.constant(f"{out}_{name}", np.array([at])) for name, at in part]
    w.add("Slice", [whole, *bounds], f"{out}_real")
    w.cast(f"{out}_real", dtype, out)


def _packed_dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    dtype = w.net.types[node.name].dtype
    bits = node.attrs["bits"]
    whole = _matrix(w, bits, node.inputs[1:], inputs[1:], out, _in_order(bits))
    w.cast(whole, dtype, f"{out}_weights")
    w.add("Gemm", [inputs[0], f"{out}_weights"], out, transB=1)


def _byte_dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """What the bytes stand for is multiplied; zero points are in the matrix, and no totals."""
    data, bits, scales = inputs[0], node.attrs["bits"], node.inputs[3:]
    shifts = [_BYTE * byte + first for first in range(0, _BYTE, bits) for byte in range(_BYTES)]
    whole = _matrix(w, bits, scales, inputs[3:], out, shifts)
    w.cast(data, "float32", f"{out}_rounded")
    w.add("Transpose", [f"{out}_rounded"], f"{out}_rows", perm=(1, 0, 2))
    w.add("Mul", [f"{out}_rows", _by_block(w, inputs[1], f"{out}_worth")], f"{out}_data")
    flat = w.constant(f"{out}_flat", np.array([0, -1]))
    w.add("Reshape", [f"{out}_data", flat], f"{out}_x")
    w.add("Gemm", [f"{out}_x", whole], f"{out}_sums", transB=1)
    w.cast(f"{out}_sums", w.net.types[node.name].dtype, out)


def _block_peaks(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    blocks = _blocks(w, inputs[0], w.net.types[node.name].shape[1], out)
    w.add("Abs", [blocks], f"{out}_magnitudes")
    w.add("IsNaN", [f"{out}_magnitudes"], f"{out}_none")
    infinite = w.constant(f"{out}_infinite", np.asarray(np.inf, np.float32))
    w.add("Where", [f"{out}_none", infinite, f"{out}_magnitudes"], f"{out}_known")
    w.add("ReduceMax", [f"{out}_known"], out, axes=[2], keepdims=0)


def _block_bytes(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    blocks = _blocks(w, inputs[0], w.net.types[node.name].shape[0], out)
    peaks = _by_block(w, inputs[1], f"{out}_peaks")

    def number(name: str, value: float) -> str:
        return w.constant(f"{out}_{name}", np.asarray(value, np.float32))

    w.add("Div", [number("top", TOP), peaks], f"{out}_factor")
    w.add("Mul", [blocks, f"{out}_factor"], f"{out}_scaled")
    w.add("Round", [f"{out}_scaled"], f"{out}_whole")
    w.add("Less", [peaks, number("least", LEAST)], f"{out}_small")
    w.add("IsInf", [peaks], f"{out}_infinite")
    w.add("Or", [f"{out}_small", f"{out}_infinite"], f"{out}_unusable")
    w.add("Where", [f"{out}_unusable", number("zero", 0.0), f"{out}_whole"], f"{out}_usable")
    w.cast(f"{out}_usable", "int8", f"{out}_bytes")
    w.add("Transpose", [f"{out}_bytes"], out, perm=(1, 0, 2))


def _block_scales(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Div", [inputs[0], w.constant(f"{out}_top", np.asarray(TOP, np.float32))], out)


def _block_totals(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.cast(inputs[0], "float32", f"{out}_floats")
    last = w.constant(f"{out}_last", np.array([2]))
    w.add("ReduceSum", [f"{out}_floats", last], f"{out}_sums", keepdims=0)
    w.add("Transpose", [f"{out}_sums"], f"{out}_rows", perm=(1, 0))
    w.add("Mul", [f"{out}_rows", inputs[1]], f"{out}_scaled")
    times = w.constant(f"{out}_times", np.asarray(node.attrs["times"], np.float32))
    w.add("Mul", [f"{out}_scaled", times], out)


def _blocks(w: Writer, x: str, blocks: Extent, out: str) -> str:
    """Rows in blocks, in float32."""
    w.cast(x, "float32", f"{out}_wide")
    shape = w.constant(f"{out}_shape", np.array([0, known(blocks), -1]))
    w.add("Reshape", [f"{out}_wide", shape], f"{out}_blocks")
    return f"{out}_blocks"


def _in_order(bits: int) -> list[int]:
    return list(range(0, WORD_BITS, bits))


def _matrix(
    w: Writer,
    bits: int,
    values: Sequence[str],
    inputs: Sequence[str],
    out: str,
    shifts: Sequence[int],
) -> str:
    """The matrix in float32, with all of its last block; ``shifts`` lead to elements of a word."""
    n, blocks, words = known_shape(w.net.types[values[0]].shape)
    per = WORD_BITS // bits

    def column(name: str, array: Sequence[int]) -> str:
        return w.constant(f"{out}_{name}", np.array(array, np.int64))

    # the words as numbers without a sign, divided by powers of two
    steps = column("steps", [1 << shift for shift in shifts])
    w.cast(inputs[0], "int64", f"{out}_signed")
    w.add("Add", [f"{out}_signed", column("range", [1 << 32])], f"{out}_positive")
    w.add("Unsqueeze", [f"{out}_positive", column("last", [3])], f"{out}_words")
    w.add("Div", [f"{out}_words", steps], f"{out}_shifted")
    w.add("Mod", [f"{out}_shifted", column("count", [1 << bits])], f"{out}_numbers")
    w.cast(f"{out}_numbers", "float32", f"{out}_floats")
    w.add(
        "Reshape",
        [f"{out}_floats", column("blocks", [n, blocks, words * per])],
        f"{out}_blocks_of",
    )
    zero = w.constant(f"{out}_middle", np.asarray(1 << (bits - 1), np.float32))
    parts = [_by_block(w, v, f"{out}_part{i}") for i, v in enumerate(inputs[1:])]
    w.add("Sub", [f"{out}_blocks_of", *(parts[1:] or [zero])], f"{out}_moved")
    w.add("Mul", [f"{out}_moved", parts[0]], f"{out}_scaled")
    w.add("Reshape", [f"{out}_scaled", column("shape", [n, -1])], f"{out}_matrix")
    return f"{out}_matrix"


def _by_block(w: Writer, value: str, out: str) -> str:
    """A number a block, in float32, to be broadcast to its elements."""
    w.cast(value, "float32", f"{out}_wide")
    w.add("Unsqueeze", [f"{out}_wide", w.constant(f"{out}_last", np.array([2]))], out)
    return out


WRITERS: dict[str, Write] = {
    "block_bytes": _block_bytes,
    "block_peaks": _block_peaks,
    "block_scales": _block_scales,
    "block_totals": _block_totals,
    "byte_dense": _byte_dense,
    "packed_dense": _packed_dense,
    "unpack": _unpack,
}
