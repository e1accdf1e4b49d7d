"""Models with weights of 4 and 8 bits, and what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A product with packed weights.

    Attributes:
        rows, k, n: of data [rows, k] and weights [n, k].
        bits, block: of an element; neighbours along k that share a scale.
        zeros: ``"none"``, ``"packed"`` or ``"float"``.
        bias: whether a bias is added.
        dtype: of the data.
        level: how inexactly ONNX Runtime may compute it.
        seed: of the numbers.
        given: arrays in place of random ones, by name.
    """

    rows: int
    k: int
    n: int
    bits: int = 4
    block: int = 32
    zeros: str = "none"
    bias: bool = False
    dtype: str = "float32"
    level: int = 0
    seed: int = 0
    given: Mapping[str, Array | None] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Blocks in a row; the last may be a part of one."""
        return -(-self.k // self.block)

    def arrays(self) -> dict[str, Array]:
        """Data, whole numbers, scales, zero points and bias."""
        rng = np.random.default_rng(self.seed)
        shape = self.n, self.blocks
        zeros = {
            "none": None,
            "packed": rng.integers(0, 1 << self.bits, shape).astype(np.uint8),
            "float": rng.uniform(0, 1 << self.bits, shape).astype(self.dtype),
        }
        return {
            "x": rng.standard_normal((self.rows, self.k)).astype(self.dtype),
            "whole": rng.integers(0, 1 << self.bits, (*shape, self.block)).astype(np.uint8),
            "scales": rng.normal(0, 0.1, shape).astype(self.dtype),
            "zeros": zeros[self.zeros],
            "bias": rng.standard_normal(self.n).astype(self.dtype) if self.bias else None,
            **self.given,
        }

    def weights(self) -> Array:
        """The matrix [n, k] in float64."""
        a = self.arrays()
        zeros = 2.0 ** (self.bits - 1) if a["zeros"] is None else a["zeros"][:, :, None]
        whole = a["whole"].astype(np.float64) - zeros
        return (whole * a["scales"][:, :, None]).reshape(self.n, -1)[:, : self.k]

    def expected(self) -> Array:
        """The product in float64."""
        a = self.arrays()
        y = a["x"].astype(np.float64) @ self.weights().T
        return y if a["bias"] is None else y + a["bias"]

    def size(self) -> float:
        """The largest sum of magnitudes: what errors are a part of."""
        a = self.arrays()
        y = np.abs(a["x"].astype(np.float64)) @ np.abs(self.weights().T)
        return float(np.max(y if a["bias"] is None else y + np.abs(a["bias"])))

    def model(
        self,
        rows: int | str | None = None,
        others: Mapping[str, Array] | None = None,
        **attrs: Any,
    ) -> onnx.ModelProto:
        """The product as ``MatMulNBits``; ``others`` and ``attrs`` take the place of its own."""
        a = self.arrays()
        tensors = {"B": packed(a["whole"], self.bits), "scales": a["scales"].reshape(-1)}
        if self.zeros == "packed":
            tensors["zeros"] = packed(a["zeros"], self.bits).reshape(-1)
        elif self.zeros == "float":
            tensors["zeros"] = a["zeros"]
        if self.bias:
            tensors["bias"] = a["bias"]
        return nbits(
            {**tensors, **(others or {})},
            self.dtype,
            (self.rows if rows is None else rows, self.k),
            **{
                "K": self.k, "N": self.n, "bits": self.bits, "block_size": self.block,
                "accuracy_level": self.level, **attrs,
            },
        )  # fmt: skip


def packed(whole: Array, bits: int) -> Array:
    """Numbers of the last dimension several in a byte, the first lowest."""
    per = 8 // bits
    wide = np.pad(whole, [(0, 0)] * (whole.ndim - 1) + [(0, -whole.shape[-1] % per)])
    each = wide.reshape(*wide.shape[:-1], -1, per) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(each, -1)


def nbits(
    tensors: Mapping[str, Array], dtype: str, shape: tuple[int | str, int], **attrs: Any
) -> onnx.ModelProto:
    """A model of one ``MatMulNBits`` with constants of these names."""
    names = [n if n in tensors else "" for n in ("zeros", "order", "bias")]
    inputs = ["x", "B", "scales", *names]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attrs)
    return model_of([node], tensors, dtype, shape)


def dequantised(
    whole: Array,
    scales: Array,
    zeros: Array | None,
    kind: str,
    rows: int | str,
    *,
    axis: int,
    block: int,
    product: str = "MatMul",
) -> onnx.ModelProto:
    """``x`` times a matrix of ``DequantizeLinear``.

    Args:
        whole: as the file has them: [K, N], or for ``Gemm`` [N, K].
        scales, zeros: as `DequantizeLinear` has them.
        kind: element type of ``whole``: int4, uint4, int8 or uint8.
        rows: of ``x``.
        axis, block: attributes; no block where it is 0.
        product: ``MatMul``, or ``Gemm`` with the second factor transposed.
    """
    to = np.dtype(getattr(ml_dtypes, kind, None) or kind)
    tensors = {"w": whole.astype(to), "scales": scales}
    if zeros is not None:
        tensors["zeros"] = zeros.astype(to)
    attrs = {"block_size": block} if block else {}
    given = ["w", "scales", *(["zeros"] if zeros is not None else [])]
    transposed = {"transB": 1} if product == "Gemm" else {}
    nodes = [
        helper.make_node("DequantizeLinear", given, ["dense"], axis=axis, **attrs),
        helper.make_node(product, ["x", "dense"], ["y"], **transposed),
    ]
    k = whole.shape[1 if product == "Gemm" else 0]
    return model_of(nodes, tensors, str(scales.dtype), (rows, k))


def model_of(
    nodes: list[onnx.NodeProto],
    tensors: Mapping[str, Array],
    dtype: str,
    shape: tuple[int | str, int],
) -> onnx.ModelProto:
    kept = [numpy_helper.from_array(a, n) for n, a in tensors.items()]
    x = helper.make_tensor_value_info("x", KINDS[dtype], shape)
    y = helper.make_tensor_value_info("y", KINDS[dtype], [shape[0], None])
    graph = helper.make_graph(nodes, "packed", [x], [y], kept)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def by_runtime(model: onnx.ModelProto, x: Array) -> Array:
    """What ONNX Runtime returns, which fuses products to those with data in float32."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])
