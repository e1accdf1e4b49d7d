"""A network of ranges, from tune to compile, as a user types it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import tilework as tw
from flows.cli import app
from storage import RecordStore
from tilework.record import MemoryHistory

RANGES = ("--shape", "batch=1..40:4,16,33")
THREADS = ("--threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two dense layers over a batch of any size, as a file."""
    folder = tmp_path_factory.mktemp("ranges")
    info, helper, rng = onnx.helper.make_tensor_value_info, onnx.helper, np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in (("w", (64, 96)), ("v", (96, 32)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ],
        "layers",
        [info("x", onnx.TensorProto.FLOAT, ["batch", 64])],
        [info("y", onnx.TensorProto.FLOAT, ["batch", 32])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "layers.onnx")
    return folder


def words(folder, *more):
    store = ("--store", str(folder / "records"), "--output", str(folder / "layers.tw"))
    return ["tune", str(folder / "layers.onnx"), *RANGES, "--no-prefect", *THREADS, *store, *more]


@pytest.fixture(scope="module")
def tuned(folder):
    """What tuning prints."""
    result = CliRunner().invoke(app, words(folder, "--trials", "36"))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_tune_says_where_it_measures(tuned):
    told = " ".join(tuned.split())
    assert "measured at batch = 4; batch = 16; batch = 33" in told
    for said in ("round 1: ", "Estimated total latency:", "Output check against", "Module: "):
        assert said in told


def test_records_are_those_of_static_networks(tuned, folder):
    store = RecordStore(str(folder / "records"))
    target = tw.Target("llvm -mcpu=native -num-cores=1")
    for batch in (4, 16, 33):
        net = tw.from_onnx(folder / "layers.onnx", {"batch": (batch,)})
        tasks, _ = tw.extract_tasks(net, target)
        assert all(store.of(task.workload_key, str(target)) for task in tasks)
        report = tw.compile(net, target, records=store).report
        assert [row.source for row in report] == ["tuned"] * len(tasks)
    net = tw.from_onnx(folder / "layers.onnx", {"batch": (5,)})
    assert "tuned" not in {row.source for row in tw.compile(net, target, records=store).report}


def test_the_module_is_right_at_every_size(tuned, folder):
    module = tw.load_module(folder / "layers.tw")
    assert [s.name for s in module.symbols] == ["batch"]
    model = onnx.load(folder / "layers.onnx")
    w, v = (onnx.numpy_helper.to_array(t) for t in model.graph.initializer)
    rng = np.random.default_rng(1)
    for batch in (1, 2, 4, 7, 16, 31, 33, 40):
        x = rng.standard_normal((batch, 64), np.float32)
        (y,) = module.run(x)
        wanted = np.maximum(x @ w, 0) @ v
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_explain_shows_the_candidates_of_a_family(cli, tuned, folder):
    store = ("--store", folder / "records")
    found = cli.json("explain", f"{folder / 'layers.onnx'}:0", *RANGES, *THREADS, *store)
    assert found["measured"]["ok"] > 0
    best = found["contestants"][0]
    assert best["role"] == "best" and best["latency_s"] > 0
    timed = cli.json(
        "explain", f"{folder / 'layers.onnx'}:0", "--measure", *RANGES, *THREADS, *store
    )
    assert all(one["now_s"] > 0 for one in timed["contestants"][:2])
    picture = folder / "curve.png"
    words = ("plot", folder / "layers.onnx", *RANGES, *THREADS, *store, "--output", picture)
    assert cli("records", *words).exit_code == 0 and picture.exists()


def test_the_same_command_measures_nothing_more_and_extend_does(cli, tuned, folder):
    found = cli.json(*words(folder, "--trials", "36"))
    assert found["resumed_rounds"] == found["rounds"] > 0
    more = cli.json(*words(folder, "--trials", "12", "--extend"))
    assert more["trials"] > found["trials"]


def test_a_compile_with_ranges_uses_records_of_static_networks(cli, tmp_path, folder):
    """One program of each layer seems to be far ahead at one point."""
    model, store, target = folder / "layers.onnx", tmp_path / "static", "llvm -mcpu=native"
    result = cli(
        "tune", model, "--shape", "batch=16", "--trials", "16", "--no-prefect", *THREADS,
        "--store", store, "--output", "",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    target = f"{target} -num-cores=1"
    tasks, _ = tw.extract_tasks(tw.from_onnx(model, {"batch": (16,)}), target)
    found, known = RecordStore(str(store)), MemoryHistory()
    for task in tasks:
        usable = [r for r in found.of(task.workload_key, str(task.target)) if r.usable]
        slowest = max(usable, key=lambda r: r.latency_s)
        rest = [r for r in usable if r.decisions != slowest.decisions]
        known.append([*rest, replace(slowest, latency_s=1e-4 * slowest.latency_s)])

    def sources(ranges):
        net = tw.from_onnx(model, {"batch": ranges})
        return [row.source for row in tw.compile(net, target, records=known).report]

    assert sources("1..40:4,16,33") == ["tuned", "tuned"]
    assert sources("1..40:4,33") == ["untuned", "untuned"]  # nothing is known of these points


@pytest.mark.parametrize(
    "ranges, told",
    [
        ("batch=1..40:50", "symbol batch: its typical value 50 is not in 1..40"),
        ("batch=1..40:", "the range '1..40:' of the symbol 'batch' makes no sense"),
        ("batch=9..1", "symbol batch: there is no number in 9..1"),
    ],
)
def test_ranges_that_make_no_sense(cli, folder, tmp_path, ranges, told):
    store = ("--store", tmp_path / "none", "--no-prefect")
    assert told in cli.error("tune", folder / "layers.onnx", "--shape", ranges, *store)
    assert not (tmp_path / "none").exists()


def test_ranges_without_typical_values_are_measured_at_their_end(cli, folder, tmp_path):
    result = cli(
        "tune", folder / "layers.onnx", "--shape", "batch=1..9", "--no-prefect", *THREADS,
        "--trials", "8", "--store", tmp_path / "records", "--output", "",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "measured at batch = 9" in " ".join(result.stdout.split())


def test_any_size(folder):
    """Ranges of which nothing was said are told; numbers and ranges that are given stay."""
    path, runner = str(folder / "layers.onnx"), CliRunner()
    told = runner.invoke(app, ["extract", path, "--shape", "any", *THREADS])
    assert told.exit_code == 0 and "--shape any: batch=1..16:1" in told.stderr
    assert "batch x 64 -> 96" in told.stdout
    told = runner.invoke(app, ["extract", path, "--shape", "any", "--shape", "batch=3", *THREADS])
    assert "--shape any: batch=3\n" in told.stderr and "3x64 -> 96" in told.stdout
    told = runner.invoke(app, ["extract", "mlp", "--shape", "any", *THREADS])
    assert told.exit_code == 2 and "--shape any is for ONNX files" in told.stderr
