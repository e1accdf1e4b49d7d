"""After the search: the output check with either reference, the comparison, and the peers."""

from __future__ import annotations

import mmap

import numpy as np
import onnx
import pytest

import tilework as tw
from tasks import check
from tasks.calls import evaluated
from tasks.compare import compare_engines
from tasks.engines import max_rel_error, random_inputs
from tasks.extraction import extract
from tasks.model_files import require_unchanged
from tasks.network import NetworkSpec, fingerprint, network_label
from tasks.peers import load_peer, require_peers
from tests.graph.run_plan import run_plan
from tests.graph.test_joined import ICE, RAPIDS, first
from tilework.errors import NetworkError, TileworkError

TARGET = tw.Target("llvm -mcpu=native -num-cores=1")


@pytest.fixture(scope="module")
def net():
    return tw.zoo.get("mlp", batch=2)


@pytest.fixture(scope="module")
def module(net):
    return tw.compile(net, TARGET)


def test_the_output_is_checked_against_onnx_runtime(net, module):
    found = check.check_output(module, net)
    assert found.reference.startswith("onnxruntime ")
    assert found.passed


def test_without_onnx_runtime_the_plan_is_evaluated_with_numpy(net, module, monkeypatch):
    def missing(*_, **__):
        raise TileworkError("onnxruntime is not installed")

    monkeypatch.setattr(check, "load_peer", missing)
    found = check.check_output(module, net)
    assert found.reference == "NumPy"
    assert found.passed


def test_words_are_read_as_the_bytes_that_they_are_made_of():
    net = first(3, quantised=True)
    joined = check.plan(net, target=RAPIDS)
    assert any(joined.values[v].dtype != joined.values[w].dtype for v, w in joined.views.items())
    inputs = random_inputs(net)
    (got,) = evaluated(joined, inputs, {})
    (want,) = run_plan(net, *inputs.values(), target=ICE)
    np.testing.assert_array_equal(got, want)


def _with_weights_beside(path):
    rng = np.random.default_rng(0)
    w = onnx.numpy_helper.from_array(rng.standard_normal((256, 256), np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(v, 1, (2, 256)) for v in "xy"]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [w])
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    return NetworkSpec(str(path))


def _is_mapped(array):
    while isinstance(array, np.ndarray | memoryview):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return isinstance(array, mmap.mmap)


def test_a_compile_maps_the_files_of_weights_and_a_search_reads_them(tmp_path):
    """Whoever searches for hours cannot ask that nobody writes to them."""
    spec = _with_weights_beside(tmp_path / "model.onnx")
    for briefly in (True, False):
        found = extract(spec, TARGET, briefly)
        assert all(_is_mapped(a) is briefly for a in found.network.constants.values())
        assert (found.files is not None) is briefly


@pytest.mark.parametrize("name", ["model.onnx", "weights"])
def test_a_file_that_is_written_to_while_it_is_compiled_is_refused(name, tmp_path):
    found = extract(_with_weights_beside(tmp_path / "model.onnx"), TARGET, briefly=True)
    require_unchanged(found.files)
    with open(tmp_path / name, "ab") as file:
        file.write(b"more")
    with pytest.raises(NetworkError, match=f"{name}' was written to while it was compiled"):
        require_unchanged(found.files)


class Liar:
    """A module whose output is off by one percent, or not a number."""

    def __init__(self, module, factor):
        self._module, self._factor, self.image = module, factor, module.image

    def run(self, inputs):
        return [out * np.float32(self._factor) for out in self._module.run(inputs)]


@pytest.mark.parametrize("factor", [1.01, float("nan")])
def test_wrong_outputs_do_not_pass(net, module, factor):
    assert not check.check_output(Liar(module, factor), net).passed


def test_max_rel_error_is_relative_to_the_largest_output():
    expected = [np.array([10.0, 0.001]), np.array([[2.0]])]
    outputs = [np.array([10.0, 0.002]), np.array([[2.1]])]
    assert max_rel_error(outputs, expected) == pytest.approx(0.05)
    assert max_rel_error([np.empty((2, 0)), *outputs], [np.empty((2, 0)), *expected]) > 0.04
    assert np.isnan(max_rel_error([np.array([np.nan, 1.0])], [np.array([1.0, 1.0])]))


@pytest.mark.filterwarnings("error")
def test_infinite_numbers_are_right_where_they_are_expected():
    expected = [np.array([-np.inf, np.nan, 2.0])]
    assert max_rel_error([np.array([-np.inf, np.nan, 2.1])], expected) == pytest.approx(0.05)
    for wrong in ([np.inf, np.nan, 2.0], [-np.inf, 0.0, 2.0], [0.0, np.nan, 2.0]):
        assert max_rel_error([np.array(wrong)], expected) == np.inf
    assert max_rel_error([np.array([-np.inf])], [np.array([1.0])]) == np.inf


def test_random_inputs_are_aligned_and_repeatable(net):
    first, again = random_inputs(net), random_inputs(net)
    assert first["data"].shape == (2, 28, 28, 1)
    assert first["data"].ctypes.data % 64 == 0
    np.testing.assert_array_equal(first["data"], again["data"])


def test_engines_are_compared_in_pairs(net):
    found = compare_engines(net, TARGET, None, ["onnxruntime"], seconds=0.1)
    assert [row.engine.split()[0] for row in found.rows] == ["tilework", "onnxruntime"]
    assert (found.tasks, found.tuned_tasks, found.threads) == (4, 0, 1)
    assert found.rows[1].max_rel_error < 1e-3
    for row in found.rows:
        assert 0 < row.timing.min_ms <= row.timing.median_ms <= row.timing.max_ms
        assert row.ratio > 0


def test_peers_answer_like_the_network(net, module, tmp_path):
    path = tmp_path / "net.onnx"
    net.to_onnx(path)
    inputs = random_inputs(net)
    peer = load_peer("onnxruntime", str(path), threads=1)
    assert max_rel_error(peer.run(inputs), module.run(inputs)) < 1e-3


def test_a_file_is_checked_and_compared_as_it_is(module, tmp_path):
    """What is read wrongly from a file is seen, and peers get the file, with its open extents."""
    other, path = tw.zoo.get("mlp", batch=2, seed=1), str(tmp_path / "net.onnx")
    other.to_onnx(path)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)
    spec = NetworkSpec(path, shapes=("batch=2",))
    assert not extract(spec, TARGET).check(module).passed
    net = tw.from_onnx(path, {"batch": (2,)})
    assert check.check_output(tw.compile(net, TARGET), net, source=path).passed
    refused = str(tmp_path / "mlp.onnx")  # of other inputs: what is written of the network decides
    tw.zoo.get("mlp", batch=3).to_onnx(refused)
    assert check.check_output(module, tw.zoo.get("mlp", batch=2), source=refused).passed
    found = compare_engines(net, TARGET, None, ["onnxruntime"], seconds=0.02, source=path)
    assert found.rows[1].max_rel_error < 1e-3
    (tmp_path / "none.onnx").write_bytes(b"none")
    with pytest.raises(TileworkError, match="onnxruntime does not open"):
        load_peer("onnxruntime", str(tmp_path / "none.onnx"), threads=1)


def test_unknown_and_missing_peers_are_named():
    with pytest.raises(TileworkError, match="unknown engine 'nothing'"):
        require_peers(["nothing"])


def test_a_network_is_known_by_its_content(tmp_path, net):
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    net.to_onnx(one)
    two.write_bytes(one.read_bytes())
    assert fingerprint(str(one), 1, "NHWC") == fingerprint(str(two), 1, "NHWC")
    two.write_bytes(one.read_bytes() + b"\0")
    assert fingerprint(str(one), 1, "NHWC") != fingerprint(str(two), 1, "NHWC")
    assert fingerprint("mlp", 1, "NHWC") != fingerprint("mlp", 2, "NHWC")
    assert network_label(str(one)) == "one"
    assert network_label("mlp") == "mlp"
