"""Rows of a table of few bits, such as the embeddings of tokens: ``GatherBlockQuantized``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, room
from tilework.graph.operators.packed import BITS

_TYPES = {"int4": np.int8, "uint4": np.uint8, "uint8": np.uint8}
"""What numbers of a table are kept as: a byte each, of which few are read."""


def _gather_block_quantized(c: OnnxContext, node: NodeProto) -> str:
    """``(data - zero point) * scale`` of the entries at some indices.

    Of bytes ``data`` holds one or two numbers each, the lower bits first, whose zero points are in
    the middle of the range where there are none.
    """
    a = attributes(node)
    bits, block = int(a.get("bits", 4)), int(a.get("block_size", 128))
    if bits not in BITS or block < 1:
        raise Unsupported(f"a table of {bits} bits in blocks of {block}; bits are 4 or 8")
    table = _numbers(c, node.input[0], bits)
    scales = c.array(node.input[2], f"the scales '{node.input[2]}'")
    gather = normal(int(a.get("gather_axis", 0)), table.ndim)
    along = normal(int(a.get("quantize_axis", 1)), table.ndim)
    shape = tuple(-(-n // block) if d == along else n for d, n in enumerate(table.shape))
    if scales.shape != shape:
        raise Unsupported(f"scales {list(scales.shape)} for a table {list(table.shape)}")
    indices = c.value(node.input[1])
    axis = along + (len(c.b.shape(indices)) - 1) * (along > gather)

    of_blocks = indices
    if gather == along:  # the blocks of entries that are taken one by one
        whole = Value(c, indices)
        of_blocks = (whole.where(whole >= 0, whole + table.shape[along]) / block).name

    def rows(array: NDArray[Any], blocks: bool = True) -> Value:
        at = of_blocks if blocks and gather == along else indices
        taken = Value(c, c.op("take", constant(c, array).name, at, axis=gather))
        if not blocks or gather == along:
            return taken
        factors = tuple(block if d == axis else 1 for d in range(len(taken.shape)))
        return taken.op("repeat", factors=factors).part(axis, 0, table.shape[along])

    numbers = rows(table, blocks=False).cast("int32")
    if optional(node, 3):
        zeros = _numbers(c, node.input[3], bits)
        zeros = zeros[..., : shape[-1]]  # the last byte may hold one more
        if zeros.shape != shape:
            raise Unsupported(f"zero points {list(zeros.shape)} for scales {list(shape)}")
        numbers = numbers - rows(zeros).cast("int32")
    elif c.dtype(node.input[0]) == "uint8":
        numbers = numbers - (1 << (bits - 1))
    return (numbers.cast(str(scales.dtype)) * rows(scales)).name


def _numbers(c: OnnxContext, name: str, bits: int) -> NDArray[Any]:
    """A constant of numbers of few bits, a byte each."""
    array = c.array(name, f"the table '{name}'")
    if array.dtype.name not in _TYPES or not array.ndim:
        raise Unsupported(f"the table '{name}' is {array.dtype}, not {', '.join(_TYPES)}")
    room(c, array.size // 4)
    if array.dtype != np.uint8 or bits != 4:
        return array.astype(_TYPES[array.dtype.name])
    halves = np.stack((array & np.uint8(15), array >> np.uint8(4)), -1)
    return halves.reshape(*array.shape[:-1], -1)


CONVERTERS: dict[str, Converter] = {"GatherBlockQuantized": _gather_block_quantized}
