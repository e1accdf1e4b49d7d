"""A network of ranges under Prefect: the same stages, and pages of its families."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_flow_tunes_ranges(prefect_server, tmp_path):
    from flows.settings import TuneSettings
    from flows.tune_network import tune_network

    info, helper = onnx.helper.make_tensor_value_info, onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones((24, 40), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "dense",
        [info("x", onnx.TensorProto.FLOAT, ["batch", 24])],
        [info("y", onnx.TensorProto.FLOAT, ["batch", 40])],
        [weight],
    )
    path = tmp_path / "dense.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    settings = TuneSettings(
        network=str(path),
        shapes=("batch=1..40:8,32",),
        target="llvm -mcpu=native -num-cores=1",
        trials=12,
        store=str(tmp_path / "records"),
        output=str(tmp_path / "dense.tw"),
    )
    report = tune_network(settings)
    assert report.check is not None and report.check.passed
    assert report.progress.trials == 12 and (tmp_path / "dense.tw").exists()
    (row,) = report.progress.rows
    assert row.trials == 12 and row.latency_ms is not None
