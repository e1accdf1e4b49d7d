"""Whole networks: every call of the plan evaluated, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph import onnx_models
from tests.graph.run_plan import relative_error, run_onnxruntime, run_plan
from tilework.errors import NetworkError
from tilework.graph import Builder, from_onnx, plan, zoo

TOLERANCE = 1e-4


def test_layouts_agree_exactly() -> None:
    nhwc = zoo.get("resnet-18", image_shape=(24, 24, 3))
    nchw = zoo.get("resnet-18", layout="NCHW", image_shape=(3, 24, 24))
    x = np.random.default_rng(2).standard_normal((1, 24, 24, 3), dtype=np.float32)
    (a,), (b,) = run_plan(nhwc, x), run_plan(nchw, x.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(a, b)


def test_activations_stay_of_order_one() -> None:
    net = zoo.get("resnet-18", image_shape=(64, 64, 3))
    p = plan(net)
    x = np.random.default_rng(3).standard_normal((1, 64, 64, 3), dtype=np.float32)
    (out,) = run_plan(net, x)
    assert 1e-2 < out.max() < 0.95 and len(p.views) == 1


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21])
def test_torchvision_resnet18(opset: int, tmp_path: Path) -> None:
    model = onnx_models.resnet(18, image=32, batch="N", opset=opset, width=16)
    path = onnx_models.save(model, tmp_path / "resnet.onnx")
    net = from_onnx(path)
    assert net.inputs["input"].shape == (1, 3, 32, 32)
    x = np.random.default_rng(4).standard_normal((1, 3, 32, 32), dtype=np.float32)
    (want,) = run_onnxruntime(path, x)
    assert relative_error(run_plan(net, x)[0], want) < TOLERANCE


def test_torchvision_resnet50(tmp_path: Path) -> None:
    path = onnx_models.save(onnx_models.resnet(50, image=48, width=8), tmp_path / "resnet.onnx")
    x = np.random.default_rng(5).standard_normal((1, 3, 48, 48), dtype=np.float32)
    (want,) = run_onnxruntime(path, x)
    assert relative_error(run_plan(from_onnx(path), x)[0], want) < TOLERANCE


def test_torchvision_batch_norm_is_gone(tmp_path: Path) -> None:
    path = onnx_models.save(onnx_models.resnet(18, image=64, width=8), tmp_path / "resnet.onnx")
    names = {c.name for c in plan(from_onnx(path)).calls}
    assert names == {
        "transpose",
        "conv2d_add_relu",
        "max_pool2d",
        "conv2d_add",
        "conv2d_add_add_relu",
        "global_avg_pool",
        "dense_add",
    }


def test_onnx_mlp(tmp_path: Path) -> None:
    path = onnx_models.save(onnx_models.mlp((20, 16, 7), batch="batch"), tmp_path / "mlp.onnx")
    net = from_onnx(path, {"input": (3, 20)})
    x = np.random.default_rng(6).standard_normal((3, 20), dtype=np.float32)
    assert relative_error(run_plan(net, x)[0], run_onnxruntime(path, x)[0]) < TOLERANCE
    assert [c.name for c in plan(net).calls] == ["dense_add_relu", "dense_add"]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_written_file_reads_back(layout: str, tmp_path: Path) -> None:
    image = (33, 33, 3) if layout == "NHWC" else (3, 33, 33)
    net = zoo.get("resnet-18", layout=layout, image_shape=image)
    net.to_onnx(tmp_path / "net.onnx")
    back = from_onnx(tmp_path / "net.onnx")
    assert dict(back.inputs) == dict(net.inputs) and back.outputs == net.outputs
    x = np.random.default_rng(7).standard_normal(net.inputs["data"].shape, dtype=np.float32)
    assert relative_error(run_plan(back, x)[0], run_plan(net, x)[0]) < TOLERANCE


def test_outputs_that_need_no_call() -> None:
    b = Builder("trivial")
    x = b.input("x", (2, 3))
    c = b.constant(np.ones((1, 3), np.float32), "c")
    total = b.op("add", x, c)
    outputs = [x, c, b.op("reshape", x, shape=(6,)), total, total, b.op("identity", total)]
    net = b.finish(outputs)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = run_plan(net, array)
    wants = [array, np.ones((1, 3)), array.reshape(6), array + 1, array + 1, array + 1]
    for g, w in zip(got, wants, strict=True):
        np.testing.assert_array_equal(g, w)
    p = plan(net)
    owned = {c.output for c in p.calls}
    assert all(p.views.get(o, o) in owned for o in p.outputs)


def test_unwritable_path(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="cannot write"):
        zoo.get("mlp").to_onnx(tmp_path / "missing" / "net.onnx")
