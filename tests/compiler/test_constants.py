"""Constants are written while kernels are chosen, wherever the room was set aside."""

from __future__ import annotations

import weakref
from functools import partial

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tilework as tw
from tilework import zoo
from tilework.compiler import constants
from tilework.runtime.arrays import aligned_empty

TARGET = "llvm -mcpu=skylake -num-cores=2"


def nothing(arrays):
    return aligned_empty((0,), "uint8")


def too_little(arrays):
    return aligned_empty((max(a.nbytes for a, _ in arrays),), "uint8")


@pytest.mark.parametrize("set_aside", [nothing, too_little])
def test_what_finds_no_room_is_written_when_all_is_known(monkeypatch, set_aside):
    image = tw.compile(zoo.get("mlp", batch=2), TARGET).image
    with monkeypatch.context() as patched:
        patched.setattr(constants, "_set_aside", set_aside)
        again = tw.compile(zoo.get("mlp", batch=2), TARGET).image
    assert again.constants.nbytes == image.constants.nbytes
    assert np.array_equal(again.constants, image.constants)
    assert again.steps == image.steps


def test_only_addresses_are_set_aside_and_no_more_than_a_gigabyte():
    few, many = np.zeros((3, 3, 8, 8), "float32"), np.broadcast_to(np.float32(0), (1 << 28, 1, 1))
    assert len(constants._set_aside([(few, 1)])) > 64 / 9 * few.nbytes
    assert len(constants._set_aside([(few, 2)])) > 2 * 64 / 9 * few.nbytes  # in two forms
    assert len(constants._set_aside([(many, 1)])) <= many.nbytes + (1 << 30)


def test_matrices_of_a_file_are_turned_where_they_are_packed():
    """`dense` has its weights as [out, in], files mostly as [in, out]."""
    weight = np.random.default_rng(0).standard_normal((24, 40), np.float32)
    row = np.ones((2, 24), np.float32)
    for kind in ("MatMul", "Gemm"):
        node = helper.make_node(kind, ["x", "w"], ["y"])
        x = helper.make_tensor_value_info("x", 1, [2, 24])
        y = helper.make_tensor_value_info("y", 1, [2, 40])
        graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weight, "w")])
        net = tw.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        (kept,) = net.constants.values()
        assert kept.shape == (40, 24) and kept.flags.f_contiguous
        np.testing.assert_allclose(
            tw.compile(net, "llvm -num-cores=1").run(row)[0], row @ weight, rtol=1e-5, atol=1e-5
        )


def test_a_network_that_is_compiled_once_gives_its_constants_away(tmp_path):
    net, kept = zoo.get("mlp", batch=2), zoo.get("mlp", batch=2)
    arrays = [weakref.ref(a) for a in net.constants.values()]
    image = tw.compile(net, TARGET, once=True).image
    assert np.array_equal(image.constants, tw.compile(kept, TARGET).image.constants)
    assert not net.constants and not any(a() is not None for a in arrays)
    for again in (partial(tw.compile, net, TARGET), partial(net.to_onnx, tmp_path / "mlp.onnx")):
        with pytest.raises(tw.TileworkError, match="once=True, which takes its constants"):
            again()
