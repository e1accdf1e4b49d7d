"""Outputs that continue an input in its memory: on every kind, from files, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph import symbolic_models
from tilework import compile as compile_
from tilework import from_onnx, load_module
from tilework.errors import ModuleError, NetworkError
from tilework.runtime.image import Room
from tilework.runtime.references import check_references
from tilework.target import Target

RANGES = {"batch": "1..2:1", "seq": "1..5:1,3", "past": "0..40:9"}
LLVM = "llvm -mcpu=native -num-cores=1"


@pytest.fixture(scope="module")
def net():
    return from_onnx(symbolic_models.decoder(1, past=True), RANGES)


@pytest.fixture(scope="module")
def module(net):
    return compile_(net, LLVM, cache=False, in_place=True)


def words(module, past, lengths=(3, 1, 1, 5), batch=2):
    """Logits of runs that continue each other."""
    rng = np.random.default_rng(0)
    for n in lengths:
        ids = rng.integers(0, symbolic_models.WORDS, (batch, n))
        mask = np.ones((batch, past.length + n), np.int64)
        yield module.run({"input_ids": ids, "mask": mask}, past=past)


def test_the_interpreter_has_the_same_rooms(net, module):
    other = compile_(net, "reference -num-cores=1", cache=False, in_place=True)
    for got, wanted in zip(
        words(other, other.new_past()), words(module, module.new_past()), strict=True
    ):
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


def test_what_lies_behind_the_past_decides_nothing(module):
    wanted = [[a.copy() for a in run] for run in words(module, module.new_past())]
    empty = np.zeros((2, symbolic_models.HEADS, 0, symbolic_models.HEAD), np.float32)
    past = module.new_past({"past_0": empty, "past_1": empty})
    for buffer in past._buffers:
        buffer[...] = np.nan
    for got, w in zip(words(module, past), wanted, strict=True):
        assert all(map(np.array_equal, got, w))


@pytest.mark.skipif("avx512bf16" not in Target("llvm").features, reason="it lacks avx512bf16")
def test_narrow_values_beside_a_past_of_float32(net, module):
    """New positions are stored as the past is, and equal those of a module that copies."""
    narrow = compile_(net, LLVM, precision="bf16", cache=False, in_place=True)
    copying = compile_(net, LLVM, precision="bf16", cache=False)
    empty = np.zeros((2, symbolic_models.HEADS, 0, symbolic_models.HEAD), np.float32)
    past, kept = narrow.new_past(), {"past_0": empty, "past_1": empty}
    assert all(room.dtype == "float32" for room in narrow.image.rooms)
    rng = np.random.default_rng(0)
    for n, exact in zip((3, 1, 1, 5), words(module, module.new_past()), strict=True):
        ids = rng.integers(0, symbolic_models.WORDS, (2, n))
        given = {"input_ids": ids, "mask": np.ones((2, past.length + n), np.int64)}
        logits, *_ = narrow.run(given, past=past)
        wanted, *presents = copying.run({**given, **kept})
        kept = dict(zip(kept, presents, strict=True))
        np.testing.assert_array_equal(logits, wanted)
        assert np.abs(logits - exact[0]).max() < 0.03 * np.abs(exact[0]).max()
        for name, array in past.arrays().items():
            np.testing.assert_array_equal(array, kept[name])


def test_files(module, tmp_path):
    module.save(tmp_path / "decoder.tw")
    again = load_module(tmp_path / "decoder.tw")
    assert again.image.rooms == module.image.rooms and len(again.image.rooms) == 2
    mine, theirs = module.new_past(), again.new_past()
    for got, wanted in zip(words(again, theirs), words(module, mine), strict=True):
        assert all(map(np.array_equal, got, wanted))
    for _ in words(again, mine, lengths=(1,)):  # it is the same module, of the same rooms
        assert mine.length == theirs.length + 1


def test_bound_calls_and_profiles_have_rooms_of_their_own(module):
    at = {"batch": 1, "seq": 1, "past": 7}
    call = module.bind(at=at)
    assert call.inputs["past_0"].shape == (1, 4, 7, 8) and call.outputs[1].shape == (1, 4, 8, 8)
    assert np.shares_memory(call.inputs["past_0"], call.outputs[1])
    call()
    assert len(module.profile(repeat=1, at=at)) == len(module.image.steps)
    with pytest.raises(ModuleError, match="output present_0 continues input past_0 in its buffer"):
        module.bind(outputs=[np.zeros(1, np.float32)] * 3, at=at)


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": (1, 4, 20, 8)},
        {"axis": 1},
        {"axis": 9},
        {"io": 0},
        {"name": "mask"},
        {"dtype": "float64"},
    ],
)
def test_a_room_that_is_none_is_refused(module, changed):
    image = module.image
    first, second = image.rooms
    wrong = replace(image, rooms=(replace(first, **changed), second))
    with pytest.raises(ModuleError, match="room"):
        check_references(wrong)
    check_references(image)
    assert isinstance(first, Room)


def joined(inputs, outputs, *nodes):
    """A network of a few nodes, of a past of ``p`` positions and ``n`` new ones."""
    infos, results = (
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in told.items()]
        for told in (inputs, outputs)
    )
    flat = numpy_helper.from_array(np.array([-1, 3], np.int64), "flat")
    graph = helper.make_graph(nodes, "joined", infos, results, [flat])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return from_onnx(model, {"p": "1..9", "n": "1..3"})


PAST, NEW, NOW = [2, "p", 3], [2, "n", 3], [2, "p + n", 3]


def test_a_reader_that_wants_positions_beside_each_other():
    """Rows of both batches in a line do not lie so in a room."""
    net = joined(
        {"past": PAST, "x": NEW},
        {"now": NOW, "y": ["rows", 3]},
        helper.make_node("Concat", ["past", "x"], ["now"], axis=1),
        helper.make_node("Reshape", ["now", "flat"], ["rows"]),
        helper.make_node("Softmax", ["rows"], ["y"], axis=0),
    )
    with pytest.raises(NetworkError, match="cannot continue past in its memory: now of"):
        compile_(net, LLVM, cache=False, in_place=True)


def test_new_positions_that_are_an_input_are_copied_behind():
    """By a call that moves them alone."""
    concat = helper.make_node("Concat", ["past", "x"], ["now"], axis=1)
    net = joined({"past": PAST, "x": NEW}, {"now": NOW}, concat)
    module = compile_(net, LLVM, cache=False, in_place=True)
    assert [s.name for s in module.image.steps] == ["copy"]
    rng = np.random.default_rng(0)
    kept = rng.standard_normal((2, 4, 3)).astype(np.float32)
    past = module.new_past({"past": kept})
    for n in (1, 3, 2):
        x = rng.standard_normal((2, n, 3)).astype(np.float32)
        kept = np.concatenate([kept, x], 1)
        assert np.array_equal(module.run(x, past=past)[0], kept)


def test_by_different_numbers_of_positions():
    net = joined(
        {"a": PAST, "x": NEW, "b": PAST, "y": [2, 1, 3]},
        {"now_a": NOW, "now_b": [2, "p + 1", 3]},
        helper.make_node("Concat", ["a", "x"], ["now_a"], axis=1),
        helper.make_node("Concat", ["b", "y"], ["now_b"], axis=1),
    )
    with pytest.raises(NetworkError, match="by different numbers of positions: a by n, b by 1"):
        compile_(net, LLVM, cache=False, in_place=True)
