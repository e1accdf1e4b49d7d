"""Networks after ONNX Runtime's optimisers: run by a session, and compared with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tilework as tw
from tests.graph.microsoft_models import compare, run_here, run_runtime
from tests.graph.microsoft_networks import Maker, Network, bert, cnn, gpt2, llama, unet
from tilework.errors import NetworkError
from tilework.graph import from_onnx, plan

TARGET = "llvm -mcpu=native -num-cores=1"

NETWORKS = {
    "BERT": bert(layers=2),
    "GPT-2, one token": gpt2(layers=2),
    "GPT-2, several": gpt2(past=3, length=4),
    "Llama, one token": llama(layers=2),
    "Llama, a chunk": llama(length=3),
    "Llama, a prompt": llama(length=8, packed=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    model, inputs = NETWORKS[name]
    compare(run_here(model, inputs), run_runtime(model, inputs))


def test_a_network_that_only_gpus_run_there() -> None:
    model, inputs = unet()
    compare(run_here(model, inputs), run_runtime(*unet(fused=False)))


@pytest.mark.parametrize("network", [bert(), llama()], ids=["BERT", "Llama"])
def test_sessions(network: Network, tmp_path: Path) -> None:
    model, inputs = network
    onnx.save(model, tmp_path / "model.onnx")
    session = tw.Session(tmp_path / "model.onnx", target=TARGET)
    compare(session.run(None, inputs), run_runtime(model, inputs))


def optimised(model: onnx.ModelProto, folder: Path, level: str) -> onnx.ModelProto:
    """What ONNX Runtime makes of the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(folder / f"{level}.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.load(options.optimized_model_filepath)


def fused(model: onnx.ModelProto) -> Counter[str]:
    """Operators of ONNX Runtime's own domains."""
    return Counter(n.op_type for n in model.graph.node if n.domain.startswith("com.microsoft"))


def check_optimised(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> None:
    compare(run_here(model, inputs), run_runtime(model, inputs), 5e-6)


def test_a_network_of_convolutions(tmp_path: Path) -> None:
    model, inputs = cnn()
    found = optimised(model, tmp_path, "ORT_ENABLE_EXTENDED")
    assert fused(found) == {"FusedConv": 3, "FusedGemm": 1}
    check_optimised(found, inputs)
    assert len(plan(from_onnx(found)).calls) <= len(plan(from_onnx(model)).calls)


def test_layouts_of_one_machine_are_refused(tmp_path: Path) -> None:
    found = optimised(cnn()[0], tmp_path, "ORT_ENABLE_ALL")
    if not any(n.domain == "com.microsoft.nchwc" for n in found.graph.node):
        pytest.skip("ONNX Runtime has no such layout for this machine")
    with pytest.raises(NetworkError, match="save the optimised model at ORT_ENABLE_EXTENDED") as e:
        from_onnx(found)
    assert str(e.value).count("ORT_ENABLE_EXTENDED") == 1


def test_a_transformer_layer(tmp_path: Path) -> None:
    """Written out in small operators; after fusion it becomes the same kernels."""
    g, d, heads = Maker(), 32, 4
    x = "x"
    shape = g.weight(np.array([2, 6, heads, d // heads]))
    q, k, v = (
        g.node("Transpose", g.node("Reshape", g.node("MatMul", x, g.of(d, d)), shape), perm=p)
        for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = g.node("Mul", g.node("MatMul", q, k), g.weight(np.float32(0.3)))
    y = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    y = g.node("Transpose", y, perm=[0, 2, 1, 3])
    y = g.node("Reshape", y, g.weight(np.array([2, 6, d])))
    y = g.node("Add", g.node("MatMul", y, g.of(d, d)), g.of(d))
    x = g.node("LayerNormalization", g.node("Add", y, x), g.of(d), g.of(d), axis=-1)
    y = g.node("Add", g.node("MatMul", x, g.of(d, 2 * d)), g.of(2 * d))
    inner = g.node("Erf", g.node("Div", y, g.weight(np.float32(np.sqrt(2)))))
    inner = g.node("Mul", y, g.node("Add", inner, g.weight(np.float32(1))))
    y = g.node("Mul", inner, g.weight(np.float32(0.5)))
    y = g.node("Add", g.node("MatMul", y, g.of(2 * d, d)), g.of(d))
    x = g.node("LayerNormalization", g.node("Add", y, x), g.of(d), g.of(d), axis=-1)
    model, inputs = g.network({"x": g.rng.standard_normal((2, 6, d)).astype(np.float32)}, [x])
    found = optimised(model, tmp_path, "ORT_ENABLE_EXTENDED")
    assert {"FusedMatMul", "SkipLayerNormalization", "Gelu"} <= set(fused(found))
    check_optimised(found, inputs)
    kernels = [Counter(c.name for c in plan(from_onnx(m)).calls) for m in (model, found)]
    assert kernels[0] == kernels[1]


def test_attention_becomes_kernels_that_compute() -> None:
    """None of them only moves data."""
    names = [c.name for c in plan(from_onnx(bert()[0])).calls]
    assert not {"slice", "transpose", "concat"} & {part for n in names for part in n.split("_")}
    assert names.count("dense_add") == 3 and names.count("softmax") == 1
