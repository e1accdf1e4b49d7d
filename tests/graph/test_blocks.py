"""Attention whose scores are large is computed for some rows of one head after another."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
import tilework_runtime
from tests.graph.run_plan import relative_error
from tests.hosts import x86
from tilework.graph import blocks, from_onnx, plan
from tilework.target import Target

MASKS = {
    "none": None,
    "of keys": lambda h, m: (1, 1, 1, m),
    "of rows and keys": lambda h, m: (1, 1, m, m),
    "of heads": lambda h, m: (1, h, m, m),
}


def attention(heads: int, rows: int | str, width: int, mask: str) -> onnx.ModelProto:
    """Self-attention between two products, with a mask that a run brings."""
    rng, whole = np.random.default_rng(0), heads * width
    length = rows if isinstance(rows, int) else -1

    def info(name: str, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    arrays = {f"w{n}": rng.standard_normal((whole, whole), np.float32) / 6 for n in range(4)}
    arrays |= {
        "split": np.array([2, length, heads, width]),
        "joined": np.array([2, length, whole]),
    }
    arrays["scale"] = np.float32(width**-0.5)
    nodes = []
    for n, c in enumerate("qkv"):
        perm = (0, 2, 3, 1) if c == "k" else (0, 2, 1, 3)
        nodes += [
            helper.make_node("MatMul", ["x", f"w{n}"], [f"{c}0"]),
            helper.make_node("Reshape", [f"{c}0", "split"], [f"{c}1"]),
            helper.make_node("Transpose", [f"{c}1"], [c], perm=perm),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["s0"]),
        helper.make_node("Mul", ["s0", "scale"], ["s1"]),
    ]
    inputs, scores, shape = [info("x", (2, rows, whole))], "s1", MASKS[mask]
    if shape is not None:
        inputs.append(info("mask", shape(heads, rows)))
        nodes.append(helper.make_node("Add", ["s1", "mask"], ["s2"]))
        scores = "s2"
    nodes += [
        helper.make_node("Softmax", [scores], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y0"]),
        helper.make_node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["y1", "joined"], ["y2"]),
        helper.make_node("MatMul", ["y2", "w3"], ["y"]),
    ]
    given = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", (2, rows, whole))], given)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture
def small(monkeypatch):
    """What is large, and what is a block, at the sizes of a test."""

    def made(near: int, rows: int) -> None:
        for name, number in (("_NEAR", near), ("_HEAD", 1), ("_ROWS", rows)):
            monkeypatch.setattr(blocks, name, number)

    return made


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2", "reference"])
@pytest.mark.parametrize("seed", range(4))
def test_any_sizes(seed, target, small):
    rng = np.random.default_rng(seed)
    heads, rows, width = (int(rng.integers(*ends)) for ends in ((2, 5), (20, 60), (3, 20)))
    mask = list(MASKS)[seed % 3]
    small(500, int(rng.integers(5, 20)))
    model = attention(heads, rows, width, mask)
    given = {
        i.name: rng.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], np.float32
        )
        for i in model.graph.input
    }
    module = tw.compile(from_onnx(model), Target(target))
    assert module.image.repeats[0].trips == heads
    (want,) = ort.InferenceSession(model.SerializeToString()).run(None, given)
    for _ in range(2):
        assert relative_error(np.array(module.run(given)[0]), want) < 2e-6


def grouped(keys: int, queries: int, rows: int, width: int) -> onnx.ModelProto:
    """Attention of queries that share keys, whose scores are seen by heads; some are masked."""
    shapes = {
        "q": (keys, queries, rows, width),
        "k": (keys, 1, width, rows),
        "v": (keys, 1, rows, width),
        "mask": (rows, rows),
    }
    split, heads = (keys, queries, rows, rows), (keys * queries, rows, rows)
    nodes = [
        helper.make_node("Relu", ["q"], ["q0"]),
        helper.make_node("Relu", ["k"], ["k0"]),
        helper.make_node("Relu", ["v"], ["v0"]),
        helper.make_node("Log", ["mask"], ["m0"]),
        helper.make_node("MatMul", ["q0", "k0"], ["s"]),
        helper.make_node("Reshape", ["s", "heads"], ["h"]),
        helper.make_node("Add", ["h", "m0"], ["s0"]),
        helper.make_node("Softmax", ["s0"], ["p"], axis=-1),
        helper.make_node("Reshape", ["p", "split"], ["p0"]),
        helper.make_node("MatMul", ["p0", "v0"], ["y0"]),
        helper.make_node("Neg", ["y0"], ["y1"]),
        helper.make_node("Softmax", ["y1"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])]
    given = [
        numpy_helper.from_array(np.array(s), n) for n, s in (("split", split), ("heads", heads))
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("near", "repeats"), [(500, 3), (2000, 1)])
@pytest.mark.parametrize("target", ["llvm -num-cores=2", "reference"])
def test_lengths_that_a_run_brings(target, near, repeats, small, tmp_path):
    """Blocks of 8 rows of a head, and a rest of 1 to 8 of all heads; or all rows of a head."""
    rng = np.random.default_rng(1)
    small(near, 8)
    model = attention(3, "m", 5, "of keys")
    module = tw.compile(from_onnx(model, {"m": "1..40:4,30"}), Target(target))
    assert len(module.image.repeats) == repeats
    session = ort.InferenceSession(model.SerializeToString())
    library = None
    if not target.startswith("reference"):
        tw.write_library(module, tmp_path / "g.so")
        library = tilework_runtime.load(tmp_path / "g.so")
    for m in (1, 40, *map(int, rng.integers(2, 40, 4)), 8, 9):
        given = {"x": (2, m, 15), "mask": (1, 1, 1, m)}
        given = {n: rng.standard_normal(shape, np.float32) for n, shape in given.items()}
        got = np.array(module.run(given)[0])
        assert relative_error(got, session.run(None, given)[0]) < 2e-6
        assert library is None or np.array_equal(np.array(library.run(given)[0]), got)


def test_lengths_that_follow_from_others(small):
    """Frames of sound, a third of its samples, with a mask that the network computes."""
    rng = np.random.default_rng(3)
    small(500, 8)
    model = attention(3, "m", 5, "none")
    (x,), (y,) = model.graph.input, model.graph.output
    x.name = "sound"
    x.type.tensor_type.shape.dim[1].dim_param = "s"
    for value in (x, y):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    for shape in (t for t in model.graph.initializer if t.name in ("split", "joined")):
        array = numpy_helper.to_array(shape).copy()
        array[0] = 0
        shape.CopyFrom(numpy_helper.from_array(array, shape.name))
    numbers = {"0": 0, "end": 1 << 40, "1": 1, "3": 3}
    constants = [numpy_helper.from_array(np.array([v]), k) for k, v in numbers.items()]
    model.graph.initializer.extend(constants)
    model.graph.node.insert(0, helper.make_node("Slice", ["sound", *numbers], ["frames"]))
    model.graph.node.insert(1, helper.make_node("Slice", ["frames", "1", "end", "1"], ["x"]))
    (at,) = (i for i, node in enumerate(model.graph.node) if node.op_type == "Softmax")
    near = [
        helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "xt"], ["near"]),
        helper.make_node("Unsqueeze", ["near", "1"], ["mask"]),
        helper.make_node("Add", [model.graph.node[at].input[0], "mask"], ["masked"]),
    ]
    model.graph.node[at].input[0] = "masked"
    for node in reversed(near):
        model.graph.node.insert(at, node)
    ranges = {"n": "1..16", "s": "4..9000:90"}
    module = tw.compile(from_onnx(model, ranges), "llvm -num-cores=1")
    session = ort.InferenceSession(model.SerializeToString())
    assert len(module.image.repeats) == 3
    for frames in (1, 8, 9, 33, 40):
        sound = rng.standard_normal((1 + frames % 3, 3 * frames + 2, 15), np.float32)
        (want,) = session.run(None, {"sound": sound})
        assert relative_error(np.array(module.run({"sound": sound})[0]), want) < 2e-6


def test_bfloat16(small):
    """What is summed in pairs, and probabilities that are seen in pairs, are cut as well."""
    where = Target(x86("znver4", 1))
    model = attention(3, 64, 8, "of keys")
    whole = {c.dag.workload_key for c in plan(from_onnx(model), "bf16", where).calls}
    small(500, 32)
    calls = plan(from_onnx(model), "bf16", where).calls
    cut = [c for c in calls if c.trips == 3]
    assert len(cut) == 6 and not whole.intersection(c.dag.workload_key for c in cut)
    assert [t.dtype for t in (*cut[1].dag.inputs, *cut[1].dag.outputs)] == ["float32", "bfloat16"]
    assert cut[2].dag.inputs[0].shape == (2, 1, 32, 32, 2)


@pytest.mark.parametrize("target", ["llvm -num-cores=2", "reference"])
def test_queries_that_share_keys(target, small):
    rng = np.random.default_rng(2)
    small(500, 16)
    model = grouped(2, 3, 40, 6)
    given = {
        i.name: rng.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], np.float32
        )
        for i in model.graph.input
    }
    given["mask"] = np.tril(np.ones((40, 40), np.float32))
    module = tw.compile(from_onnx(model), Target(target))
    assert [r.trips for r in module.image.repeats] == [2]
    (want,) = ort.InferenceSession(model.SerializeToString()).run(None, given)
    assert relative_error(np.array(module.run(given)[0]), want) < 2e-6


def trips(model: onnx.ModelProto, threads: int = 1) -> set[int]:
    target = Target(f"llvm -num-cores={threads}")
    return {c.trips for c in plan(from_onnx(model), target=target).calls}


def test_what_is_small_or_needs_a_large_copy_stays_whole(small):
    model = attention(4, 64, 8, "none")
    assert trips(model) == {1}
    small(2 * 4 * 64 * 64 * 2, 8)  # half of the scores of both images
    assert trips(model) == {1, 4} and trips(model, 2) == {1}
    assert trips(attention(4, 64, 8, "of heads")) == {1}


def test_the_last_block_begins_earlier(small):
    small(100, 20)
    calls = [c for c in plan(from_onnx(attention(2, 50, 8, "none"))).calls if c.trips == 2]
    assert len(calls) == 9 and len({c.dag.workload_key for c in calls}) == 3
