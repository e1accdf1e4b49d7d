"""Looking at networks: networks, extract, help."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from flows.cli.commands import joined
from tests.graph.cut_models import TWICE, model
from tilework.graph import failures, passes
from tilework.index.symbols import symbol
from tilework.kinds.cpu import hardware, parameters

COMMANDS = ("networks", "extract", "tune", "compile", "bench", "records", "explain", "doctor")


@pytest.fixture
def symbolic_file(tmp_path):
    """A dense layer over a batch of any size."""
    info, helper = onnx.helper.make_tensor_value_info, onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "dense",
        [info("x", onnx.TensorProto.FLOAT, ["batch", 8])],
        [info("y", onnx.TensorProto.FLOAT, ["batch", 4])],
        [weight],
    )
    path = tmp_path / "dense.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_help_lists_every_command(cli):
    text = cli("--help").stdout
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("networks", "doctor")])
def test_help_teaches_by_example(cli, command):
    subcommand = ["records", "distill"] if command == "records" else [command]
    assert f"tilework {command}" in cli(*subcommand, "--help").stdout


def test_help_is_as_wide_as_the_terminal():
    assert joined("Do it.\n\nWith\ncare.\n\nExample\n\n  a\n  b") == (
        "Do it.\n\nWith care.\n\nExample\n\n  a\n  b"
    )


def test_networks_lists_the_zoo(cli):
    found = {n["name"]: n for n in cli.json("networks")}
    assert {"resnet-18", "resnet3d-101", "mobilenet", "squeezenet_v1.1", "mlp"} <= found.keys()
    assert found["resnet-18"]["inputs"] == {"data": [1, 224, 224, 3]}
    assert (found["resnet-18"]["tasks"], found["resnet-18"]["calls"]) == (24, 25)
    assert 3.6e9 < found["resnet-18"]["flops"] < 3.7e9
    assert found["resnet3d-18"]["inputs"] == {"data": [1, 16, 112, 112, 3]}


def test_extract_shows_the_tasks_of_resnet_18(cli):
    tasks = cli.json("extract", "resnet-18")
    assert len(tasks) == 24
    assert {t["id"] for t in tasks} == set(range(24))
    assert all(t["flops"] > 0 and t["weight"] >= 1 for t in tasks)
    told = cli("extract", "resnet-18").stdout
    assert "24 distinct tasks" in told and "Compiling: about" in told and "draft about" in told


def test_verbose_shows_what_was_left_out(cli, monkeypatch):
    def fails(net):
        raise ValueError("of such a network it has not thought")

    monkeypatch.setattr(failures, "strict", False)
    monkeypatch.setattr(passes, "PASSES", (fails, *passes.PASSES))
    quiet, said = cli("extract", "mlp"), cli("extract", "mlp", "--verbose")
    assert quiet.exit_code == said.exit_code == 0 and not quiet.stderr
    (line,) = said.stderr.splitlines()
    assert "the pass fails on the network 'mlp'" in line and "has not thought" in line
    assert quiet.stdout == said.stdout


def test_extract_show_prints_compute_definitions(cli):
    text = cli("extract", "mlp", "--show").stdout
    assert "========== Task 0  (workload key: [" in text
    assert "p0 = PLACEHOLDER [1, 784]" in text


def test_extract_follows_the_batch(cli):
    assert "PLACEHOLDER [4, 784]" in cli("extract", "mlp", "--show", "--batch", "4").stdout


@pytest.mark.parametrize(
    ("option", "shape"),
    [
        ("x=4,8", "[4, 8]"),
        ("batch=3", "[3, 8]"),
        ("x=2x8", "[2, 8]"),
        (None, "[1, 8]"),
        ("batch=1..64:1,16", "[batch, 8]"),
        ("batch=2..2", "[2, 8]"),
    ],
)
def test_extract_binds_symbolic_extents(cli, symbolic_file, option, shape):
    options = ["--shape", option] if option else []
    text = cli("extract", str(symbolic_file), "--show", *options).stdout
    assert f"p0 = PLACEHOLDER {shape}" in text


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("x", "write NAME=1,3,224,224"),
        ("x=-1,8", "write NAME=1,3,224,224"),
        ("y=1,8", "no input 'y'"),
        ("x=1,9", "has extent 8 in dimension 1"),
        ("batch=1,2", "takes one positive number"),
        ("batch=9..1", "symbol batch: there is no number in 9..1"),
        ("batch=1..9:", "the range '1..9:' of the symbol 'batch' makes no sense"),
        ("x=n,8", "'n', given for 'x', is no arithmetic of symbols with ranges"),
    ],
)
def test_shapes_that_make_no_sense(cli, symbolic_file, option, told):
    assert told in cli.error("extract", str(symbolic_file), "--shape", option)


def test_shapes_are_for_files(cli):
    told = cli.error("extract", "mlp", "--shape", "data=4,784")
    assert "--shape is for ONNX files" in told


def test_version(cli):
    assert cli("--version").stdout.startswith("tilework 0.")


def test_doctor_describes_the_machine(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # drafts of later tests depend on the file
    shared = {1: parameters.Shared(23.0, 9.2, 4.0)}
    known = parameters.Parameters(1e9, 1.0, 1.0, 1.9, 3.9, 33.0, shared, "today")
    monkeypatch.setattr(hardware, "measure_parameters", lambda target: known)
    monkeypatch.setattr(hardware, "others_since_now", lambda: lambda: 0.0)
    found = cli.json("doctor")
    assert found["Analytic model"]["clock"] == "1.00 GHz"
    assert found["Machine"]["target"].startswith("llvm -mcpu=")
    assert found["Libraries"]["prefect"].startswith("3.")
    assert "server" in found["Prefect"]


def test_a_compile_tells_its_stages(cli, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE", "off")  # kernels that are kept are not written again
    given = ("compile", "mlp", "--target", "llvm -num-cores=2", "--output", "", "--profile")
    stages = cli.json(*given)["stages"]
    assert list(stages)[-2:] == ["run", "all"] and stages["write"]["wall_s"] > 0
    assert "Stage" in cli(*given).stdout
    assert "of a module" in cli.error(*given[:-3], "--output", "net.so", "--profile")


def test_what_another_engine_runs_is_said_in_a_line(cli, tmp_path):
    path = tmp_path / "twice.onnx"
    onnx.save(model(TWICE), path)
    given = [str(path), "--shape", "N=3", "--target", "llvm -mcpu=native -num-cores=1"]
    assert "left to ONNX Runtime" in cli("extract", *given).stdout
    output = tmp_path / "net.tw"
    made = cli("compile", *given, "--no-packages", "--output", str(output)).stdout
    assert "ai.onnx.ml.Binarizer (2 of 8 nodes" in " ".join(made.split())
    assert (output / "parts.json").is_file()
    assert "unsupported: ai.onnx.ml.Binarizer" in cli.error("extract", *given, "--strict")


def test_a_comparison_that_a_run_decides_is_one_line(cli, symbolic_file, monkeypatch):
    seq = symbol("seq", 1, 512)
    monkeypatch.setattr("tilework.compiler.assemble._steps", lambda *_: seq > 8)
    said = cli.error("compile", symbolic_file, "--shape", "batch=1..8")
    assert "seq" in said and "\n" not in said


def test_kinds_that_take_no_ranges_say_so(cli, symbolic_file):
    words = ("compile", symbolic_file, "--shape", "batch=1..8", "--target", "cuda -arch=sm_90")
    assert cli.error(*words) == (
        "error: programs of the kind 'cuda' are for extents of numbers, and batch is a range: "
        "compile with --shape batch=NUMBER"
    )
