"""Packed weights, written out: the numbers of bytes by division, for every engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer
from tilework.index.extents import known_shape
from tilework.ops.packed import WORD_BITS


def _unpack(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    size, dtype = node.attrs["size"], w.net.types[node.name].dtype
    whole = _matrix(w, node.attrs["bits"], node.inputs, inputs, out)
    part = (("begin", 0), ("end", size), ("axis", 1))
    bounds = [w.constant(f"{out}_{name}", np.array([at])) for name, at in part]
    w.add("Slice", [whole, *bounds], f"{out}_real")
    w.add("Cast", [f"{out}_real"], out, to=_kind(dtype))


def _packed_dense(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    dtype = w.net.types[node.name].dtype
    whole = _matrix(w, node.attrs["bits"], node.inputs[1:], inputs[1:], out)
    w.add("Cast", [whole], f"{out}_weights", to=_kind(dtype))
    w.add("Gemm", [inputs[0], f"{out}_weights"], out, transB=1)


def _matrix(w: Writer, bits: int, values: Sequence[str], inputs: Sequence[str], out: str) -> str:
    """The matrix in float32, with all of its last block."""
    n, blocks, words = known_shape(w.net.types[values[0]].shape)
    per = WORD_BITS // bits

    def column(name: str, array: Sequence[int]) -> str:
        return w.constant(f"{out}_{name}", np.array(array, np.int64))

    # the words as numbers without a sign, divided by 1, 2^bits, 2^(2 bits) ...
    steps = column("steps", [1 << bits * t for t in range(per)])
    w.add("Cast", [inputs[0]], f"{out}_signed", to=_kind("int64"))
    w.add("Add", [f"{out}_signed", column("range", [1 << 32])], f"{out}_positive")
    w.add("Unsqueeze", [f"{out}_positive", column("last", [3])], f"{out}_words")
    w.add("Div", [f"{out}_words", steps], f"{out}_shifted")
    w.add("Mod", [f"{out}_shifted", column("count", [1 << bits])], f"{out}_numbers")
    w.add("Cast", [f"{out}_numbers"], f"{out}_floats", to=_kind("float32"))
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
    w.add("Cast", [value], f"{out}_wide", to=_kind("float32"))
    w.add("Unsqueeze", [f"{out}_wide", w.constant(f"{out}_last", np.array([2]))], out)
    return out


def _kind(dtype: str) -> int:
    """ONNX's number of an element type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


WRITERS: dict[str, Write] = {"packed_dense": _packed_dense, "unpack": _unpack}
