"""Every mistake a user can make ends in one clear line and exit code 2."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper


def test_unknown_network_names_near_matches(cli):
    message = cli.error("extract", "resnet-81")
    assert "unknown network 'resnet-81'" in message
    assert "resnet-18" in message


def test_missing_onnx_file(cli):
    message = cli.error("extract", "nowhere.onnx")
    assert "nowhere.onnx" in message


def test_corrupt_onnx_file(cli, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"this is not a model")
    assert "bad.onnx" in cli.error("extract", "bad.onnx")


def test_all_unsupported_operators_are_listed_at_once(cli, tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("Wave", ["a"], ["y"], domain="my.ops"),
    ]
    graph = helper.make_graph(
        nodes,
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph), tmp_path / "odd.onnx")
    message = cli.error("extract", "odd.onnx", "--strict")
    assert "NonZero" in message
    assert "my.ops.Wave" in message


@pytest.mark.parametrize(
    "target", ["cpu", "llvm -mcpu=znver44", "llvm -cores=2", "llvm -num-cores=none", "cuda"]
)
def test_a_target_that_makes_no_sense(cli, target):
    assert f"target '{target}'" in cli.error("tune", "mlp", "--target", target)


def test_a_store_that_cannot_be_written(cli, tmp_path):
    (tmp_path / "taken").write_text("a file, not a directory")
    message = cli.error("tune", "mlp", "--trials", "4", "--store", tmp_path / "taken")
    assert "taken" in message


@pytest.mark.parametrize("output", [".", "nowhere/mlp.tw"])
def test_a_module_that_cannot_be_written_is_noticed_before_the_search(cli, output):
    message = cli.error("tune", "mlp", "--trials", "4", "--no-prefect", "--output", output)
    assert "cannot write the module" in message


def test_a_store_that_is_not_there(cli):
    assert "no record store at 'nothing'" in cli.error("records", "show", "--store", "nothing")


@pytest.mark.parametrize("task", ["mlp", "mlp:x", "mlp:99"])
def test_a_task_that_does_not_exist(cli, task):
    assert "mlp" in cli.error("explain", task)


def test_an_unknown_engine(cli):
    assert "unknown engine 'tensorrt'" in cli.error("bench", "mlp", "--compare", "tensorrt")


def test_thread_counts_that_are_none(cli):
    assert "--threads" in cli.error("bench", "mlp", "--threads", "one")


def test_batch_of_an_onnx_file(cli, tmp_path):
    assert "--batch" in cli.error("extract", "model.onnx", "--batch", "2")
