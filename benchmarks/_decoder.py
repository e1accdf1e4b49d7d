"""Layers of a decoder with weights of 4 bits, as ``MatMulNBits`` writes them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FORMS = {
    "int4/32": (32, False, 0),
    "int4/128": (128, False, 0),
    "int4/32 zeros": (32, True, 0),
    "int4/32 level 4": (32, False, 4),
    "int4/32 zeros level 4": (32, True, 4),
    "int4/128 level 4": (128, False, 4),
}
"""Numbers in a block, whether blocks have zero points, and ``accuracy_level``: at 4 data are
rounded to 8 bits."""
_WIDE, _WIDER, _LAYERS = 2048, 5632, 16


def packed(
    rng: np.random.Generator, k: int, n: int, form: str
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Random weights [k, n] as ``MatMulNBits`` takes them: its constants, and its attributes."""
    block, zeros, level = FORMS[form]
    blocks = k // block
    given = {
        "w": rng.integers(0, 256, (n, blocks, block // 2), np.uint8),
        "s": rng.uniform(0.1, 0.3, (n, blocks)).astype(np.float32) / np.float32(k**0.5),
    }
    if zeros:  # near the middle, as those of a tool
        given["z"] = np.full((n, (blocks + 1) // 2), 0x87, np.uint8)
    return given, {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": level}


def decoder(rows: int, form: str) -> onnx.ModelProto:
    """Products 2048 x 5632 and 5632 x 2048 in turns, on so many rows: 92 MB of packed numbers."""
    rng = np.random.default_rng(0)
    nodes, tensors, x = [], [], "x"
    for i in range(_LAYERS):
        k, n = (_WIDE, _WIDER) if i % 2 == 0 else (_WIDER, _WIDE)
        given, attrs = packed(rng, k, n, form)
        tensors += [numpy_helper.from_array(a, f"{name}{i}") for name, a in given.items()]
        inputs = [x, *(f"{name}{i}" for name in given)]
        nodes.append(
            helper.make_node("MatMulNBits", inputs, [f"y{i}"], domain="com.microsoft", **attrs)
        )
        x = f"y{i}"
    ends = [helper.make_tensor_value_info(v, TensorProto.FLOAT, (rows, _WIDE)) for v in ("x", x)]
    graph = helper.make_graph(nodes, "decoder", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def packed_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the weights, their scales and zero points."""
    return sum(len(t.raw_data) for t in model.graph.initializer)
