"""Networks in parts through the stages: their tasks, the check, the comparison, the place."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import tilework as tw
from tasks import finish
from tasks.check import check_output
from tasks.compare import compare_engines
from tasks.engines import max_rel_error, random_inputs
from tasks.extraction import extract
from tasks.library import compile_levels
from tasks.network import NetworkSpec
from tests.graph.cut_models import DETECTION, TWICE, model
from tilework.errors import ModuleError, NetworkError
from tilework.record import MemoryHistory
from tilework.runtime.other import OtherPart
from tilework.runtime.parts import PartedModule

TARGET = tw.Target("llvm -mcpu=native -num-cores=1")


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "twice.onnx"
    onnx.save(model(TWICE), path)
    return NetworkSpec(str(path), shapes=("N=3",))


@pytest.fixture(scope="module")
def found(spec):
    return extract(spec, TARGET)


def test_tasks_of_all_our_parts_are_joined(found):
    assert "ai.onnx.ml.Binarizer (2 of 8 nodes" in found.left
    keys = [t.workload_key for t in found.tasks]
    assert len(keys) == len(set(keys)) < sum(found.weights)


def test_strict_and_sparse_refuse(spec):
    for refused in ({"strict": True}, {"sparse": tw_sparse()}):
        with pytest.raises(NetworkError, match=r"ai\.onnx\.ml\.Binarizer") as e:
            extract(NetworkSpec(spec.network, shapes=spec.shapes, **refused), TARGET)
        assert "\n" not in str(e.value)


def tw_sparse():
    from tasks.network import Sparse

    return Sparse(0.5, (2, 1))


def compiled(found, output=""):
    return finish.compile_network(
        found, TARGET, MemoryHistory(), str(output), lambda _: None, untuned=False
    )


def test_the_check_goes_part_by_part(found):
    made = compiled(found)
    good = finish.check(made)
    assert good.passed and good.reference.endswith("part by part")
    part = next(p for p in made.tuned.modules)
    part.image.constants.view(np.float32)[:] *= -1  # weights that are others
    assert not check_output(made.tuned, found.network).passed


def test_what_a_threshold_decides_is_no_error():
    """Boxes whose scores differ by rounding alone may change places."""
    net = tw.from_onnx(model(DETECTION), strict=False)
    module = tw.compile(net, TARGET)
    assert check_output(module, net).passed


RANDOM = """
<ir_version: 10, opset_import: ["" : 20]>
noisy (float[64, 256] x, float[256, 256] w) => (float[64, 256] y)
{
    r = RandomNormalLike (x)
    n = Add (x, r)
    a = MatMul (n, w)
    e = Relu (a)
    y = MatMul (e, w)
}
"""


WITHIN_A_LOOP = RANDOM.replace(
    "r = RandomNormalLike (x)",
    """t = Constant <value = int64 {3}> ()
    ok = Constant <value = bool {1}> ()
    r = Loop <body = b (int64 i, bool on, float[64, 256] v) => (bool go, float[64, 256] u) {
        go = Identity (on)
        d = RandomNormalLike (v)
        u = Add (v, d)
    }> (t, ok, x)""",
)


def test_what_a_loop_draws_anew_is_not_compared():
    net = tw.from_onnx(onnx.parser.parse_model(WITHIN_A_LOOP), strict=False)
    good = check_output(tw.compile(net, TARGET), net)
    assert good.passed and good.reference.endswith("part by part, random numbers left out")


def test_what_is_drawn_anew_is_not_compared(monkeypatch):
    net = tw.from_onnx(onnx.parser.parse_model(RANDOM), strict=False)
    module = tw.compile(net, TARGET)
    good = check_output(module, net)
    assert good.passed and good.reference.endswith("part by part, random numbers left out")
    right = module.run_part
    ours = next(p for p in module.image.parts if not isinstance(p.runner, OtherPart))

    def wrong(*given):
        found = right(*given)
        return [2 * np.array(y) for y in found] if given[0] is ours else found

    monkeypatch.setattr(module, "run_part", wrong)
    assert not check_output(module, net).passed


def test_what_has_no_form_in_onnx_is_checked_by_numpy():
    text = """
<ir_version: 10, opset_import: ["" : 18]>
highest (float[40, 8] x, int64[90, 8] at, float[90, 8] updates) => (float[40, 8] y)
{
    y = ScatterElements <axis = 0, reduction = "max"> (x, at, updates)
}
"""
    net = tw.from_onnx(onnx.parser.parse_model(text), strict=True)
    good = check_output(tw.compile(net, TARGET), net)
    assert good.passed and good.reference == "NumPy"


def test_errors_of_any_output():
    one = np.ones(2, np.float32)
    assert max_rel_error([one], [np.ones(3, np.float32)]) == np.inf
    assert max_rel_error([[one, one]], [[one, 2 * one]]) == 0.5
    assert max_rel_error([[one]], [[one, one]]) == np.inf
    assert max_rel_error([np.array(["a"], object)], [np.array(["b"], object)]) == np.inf
    assert max_rel_error([np.array([True])], [np.array([False])]) > 1
    assert max_rel_error([np.empty(0)], [np.empty(0)]) == 0


def test_beside_other_engines(found):
    made = compare_engines(found.network, TARGET, None, ["onnxruntime"], 0.02, profile=True)
    assert made.left == found.left and len(made.rows) == 2
    assert made.rows[1].max_rel_error < 1e-5
    assert any(row.desc.startswith("ONNX Runtime") for row in made.profile)


def test_it_takes_its_place_as_a_folder(found, tmp_path):
    place = tmp_path / "net.tw"
    finish.check_place(str(place))
    for _ in range(2):
        made = compiled(found, place)
        assert not made.notes
        assert finish.keep(made, finish.check(made), None) == str(place)
    assert isinstance(tw.load_module(place), PartedModule)
    finish.check_place(str(place))
    assert [p.name for p in tmp_path.iterdir()] == ["net.tw"]
    refused = compiled(found, place)
    refused.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["net.tw"]
    (tmp_path / "papers").mkdir()
    with pytest.raises(ModuleError, match="cannot write the module"):
        finish.check_place(str(tmp_path / "papers"))


def test_no_library(spec):
    with pytest.raises(ModuleError, match="cannot become a shared library"):
        compile_levels(spec, [TARGET], MemoryHistory(), lambda _: None)


def test_inputs_that_nobody_can_make_up():
    net = tw.from_onnx(
        model("g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }"), strict=False
    )
    with pytest.raises(NetworkError, match=r"input s seq\(tensor\(float\)\)"):
        random_inputs(net)


def test_the_reference_of_bytes_does_not_saturate():
    """As ONNX Runtime does on CPUs without VNNI; its exact mode refuses shared weights."""
    m = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
        "g (float[4, 32] x) => (float[4, 8] y) "
        "<float s = {0.005}, float r = {1.0}, float t = {20.0}, uint8 z = {0}, int8 n = {0}> {"
        " a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)"
        " v = DequantizeLinear(w, r, n) c = MatMul(b, v)"
        " d = QuantizeLinear(c, t, z) e = DequantizeLinear(d, t, z)"
        " u = DequantizeLinear(w, r, n) f = MatMul(b, u)"
        " h = QuantizeLinear(f, t, z) i = DequantizeLinear(h, t, z)"
        " k = Add(e, i) l = ai.onnx.ml.Binarizer <threshold = 1.0> (k) y = Add(k, l) }"
    )
    w = onnx.numpy_helper.from_array(np.full((32, 8), 127, np.int8), "w")
    m.graph.initializer.append(w)
    net = tw.from_onnx(m, strict=False)
    assert check_output(tw.compile(net, TARGET), net).passed
