"""Networks quantised by ONNX Runtime's tools, and their tensors as its kernels compute them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime.quantization as q
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.graph.onnx_models import GraphMaker, resnet
from tilework.target import Target

_QDQ, _QOP = q.QuantFormat.QDQ, q.QuantFormat.QOperator
_U8, _S8 = q.QuantType.QUInt8, q.QuantType.QInt8


def _static(form: q.QuantFormat, data: q.QuantType, weights: q.QuantType) -> dict[str, Any]:
    return {"quant_format": form, "activation_type": data, **_weights(weights)}


def _weights(kind: q.QuantType) -> dict[str, Any]:
    """Signed weights have a scale for each channel, unsigned ones a zero point.

    They have 7 bits where ONNX Runtime would add products in 16 bits, which saturate.
    """
    exact = {"avx512vnni", "avxvnni"} & Target("llvm").features
    return {"per_channel": kind is _S8, "reduce_range": not exact, "weight_type": kind}


STATIC = {
    "QDQ u8 s8": _static(_QDQ, _U8, _S8),
    "QDQ u8 u8": _static(_QDQ, _U8, _U8),
    "QDQ s8 s8": _static(_QDQ, _S8, _S8),
    "QOperator u8 s8": _static(_QOP, _U8, _S8),
    "QOperator u8 u8": _static(_QOP, _U8, _U8),
}
DYNAMIC = {"u8": _weights(_U8), "s8": _weights(_S8)}


class _Data(q.CalibrationDataReader):
    """Random inputs like those of the network."""

    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self.rows = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rows, None)


def mobile() -> onnx.ModelProto:
    """Inverted residuals: depthwise convolutions, ReLU6, an addition, and a dense layer."""
    g = GraphMaker(3)

    def act(x: str) -> str:
        return g.node("Clip", x, low, high)

    def depthwise(x: str, c: int, stride: int) -> str:
        w = g.weight(g.rng.standard_normal((c, 1, 3, 3)).astype(np.float32) / 3)
        b = g.weight(g.rng.normal(0, 0.1, c).astype(np.float32))
        window = {"group": c, "kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2}
        return g.node("Conv", x, w, b, **window)

    low, high = (g.weight(np.float32(v)) for v in (0, 6))
    x = act(g.conv("input", 3, 16, 3, 2, bias=True))
    y = act(g.conv(x, 16, 32, 1, bias=True))
    y = g.conv(act(depthwise(y, 32, 1)), 32, 16, 1, bias=True)
    x = g.node("Add", x, y)
    x = act(depthwise(x, 16, 2))
    x = g.node("Concat", x, act(g.conv(x, 16, 24, 1, bias=True)), axis=1)
    x = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    g.gemm(x, 40, 10, output="output")
    return g.model({"input": (1, 3, 20, 20)}, {"output": (1, 10)})


def folded_resnet() -> onnx.ModelProto:
    """A residual network of a tenth of the usual width; its batch norms are folded by the tool."""
    return resnet(18, image=32, width=8, classes=10)


def encoder(tokens: int = 6, d: int = 16, heads: int = 2) -> onnx.ModelProto:
    """Attention and a feed-forward layer as BERT has them, with GELU written out."""
    g = GraphMaker(5)

    def linear(x: str, n: int, m: int) -> str:
        w = g.weight(g.rng.standard_normal((n, m)).astype(np.float32) / np.sqrt(np.float32(n)))
        return g.node(
            "Add", g.node("MatMul", x, w), g.weight(g.rng.normal(0, 0.1, m).astype(np.float32))
        )

    def split(x: str, *perm: int) -> str:
        shape = g.weight(np.array([1, tokens, heads, d // heads], np.int64))
        return g.node("Transpose", g.node("Reshape", x, shape), perm=list(perm))

    def norm(x: str) -> str:
        w, b = (g.weight(v) for v in (np.ones(d, np.float32), np.zeros(d, np.float32)))
        return g.node("LayerNormalization", x, w, b, axis=-1)

    k = split(linear("input", d, d), 0, 2, 3, 1)
    scores = g.node("MatMul", split(linear("input", d, d), 0, 2, 1, 3), k)
    scores = g.node("Mul", scores, g.weight(np.float32((d // heads) ** -0.5)))
    y = g.node(
        "MatMul", g.node("Softmax", scores, axis=-1), split(linear("input", d, d), 0, 2, 1, 3)
    )
    y = g.node("Transpose", y, perm=[0, 2, 1, 3])
    y = g.node("Reshape", y, g.weight(np.array([1, tokens, d], np.int64)))
    x = norm(g.node("Add", "input", linear(y, d, d)))
    up = linear(x, d, 4 * d)
    erf = g.node("Erf", g.node("Mul", up, g.weight(np.float32(0.5**0.5))))
    gelu = g.node(
        "Mul",
        g.node("Mul", up, g.node("Add", erf, g.weight(np.float32(1)))),
        g.weight(np.float32(0.5)),
    )
    last = norm(g.node("Add", x, linear(gelu, 4 * d, d)))
    g.node("Identity", last, output="output")
    shape = (1, tokens, d)
    return g.model({"input": shape}, {"output": shape})


NETWORKS = {"mobile": mobile, "resnet": folded_resnet, "encoder": encoder}


def quantised(network: str, form: str, folder: Path) -> onnx.ModelProto:
    """A network of `NETWORKS` in a form of `STATIC` or `DYNAMIC`, with random calibration.

    Softmax stays in float: ONNX Runtime's kernel of bytes looks exponentials up in a table.
    """
    with _quiet():
        return _quantised(network, form, folder)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the quantiser tells the root logger."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)


def _quantised(network: str, form: str, folder: Path) -> onnx.ModelProto:
    plain, prepared, path = (folder / f"{network}.{n}.onnx" for n in ("plain", "prepared", "q"))
    onnx.save(NETWORKS[network](), plain)
    quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    if form in STATIC:
        rng = np.random.default_rng(0)
        feeds = [inputs(onnx.load(prepared), rng) for _ in range(2)]
        left = [n.name for n in onnx.load(prepared).graph.node if n.op_type == "Softmax"]
        q.quantize_static(prepared, path, _Data(feeds), nodes_to_exclude=left, **STATIC[form])
    else:
        q.quantize_dynamic(prepared, path, **DYNAMIC[form])
    return onnx.load(path)


def inputs(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs of a model."""
    found = {}
    for i in model.graph.input:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        found[i.name] = rng.standard_normal(shape).astype(np.float32)
    return found


_ZERO = {
    "QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7, "QGemm": 8, "QLinearAdd": 7,
    "QLinearMul": 7, "QLinearConcat": 1,
}  # fmt: skip
"""Which input is the zero point of the result."""


def with_bytes_as_outputs(model: onnx.ModelProto) -> list[str]:
    """Make every quantised tensor an output; their names."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    have = {o.name for o in model.graph.output}
    names = []
    for node in model.graph.node:
        at = _ZERO.get(node.op_type)
        if at is None or len(node.input) <= at or node.output[0] in have:
            continue
        kind = helper.np_dtype_to_tensor_dtype(arrays[node.input[at]].dtype)
        if kind in (TensorProto.UINT8, TensorProto.INT8):
            names.append(node.output[0])
            model.graph.output.append(helper.make_tensor_value_info(names[-1], kind, None))
    return names


def by_onnx_runtime(
    model: onnx.ModelProto, feed: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """All outputs, of its fused kernels.

    But for softmax: that of bytes is a table, which rounds otherwise than the operators that it
    stands for (72.52 to 72, by scales that another CPU's calibration gives). It is not taken where
    somebody else wants the floats.
    """
    names = [o.name for o in model.graph.output]
    floats = [node.output[0] for node in model.graph.node if node.op_type == "Softmax"]
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    apart.graph.output.extend(onnx.ValueInfoProto(name=name) for name in floats)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        apart.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip(names, session.run(names, dict(feed)), strict=True))
