"""Networks quantised here: the file, the samples it is made from, and what it lost."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import tilework as tw
from tasks import check
from tasks.engines import random_inputs
from tasks.extraction import extract, spec_fingerprint
from tasks.network import NetworkSpec, Sparse
from tasks.peers import load_peer
from tasks.quantise import loss_of, quantise
from tasks.quantiser import QuantiseRequest
from tasks.samples import End, read_samples
from tasks.weights_quantiser import WeightsOnly
from tests.tasks.test_finish import Liar
from tilework.errors import NetworkError

TARGET = tw.Target("llvm -mcpu=native -num-cores=1")
OPSET = '<ir_version: 8, opset_import: ["" : {opset}]>'
CONVOLUTIONS = """
net (float[batch, 4, 12, 12] x) => (float[batch, 10] y) {
  a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w)
  b = Relu(a)
  c = GlobalAveragePool(b)
  d = Flatten(c)
  y = MatMul(d, v)
}
"""


@pytest.fixture
def model(tmp_path):
    return written(tmp_path)


def written(folder, opset=17):
    rng = np.random.default_rng(0)
    made = onnx.parser.parse_model(OPSET.replace("{opset}", str(opset)) + CONVOLUTIONS)
    for i, node in enumerate(made.graph.node):
        node.name = f"node{i}"
    for name, shape in {"w": (16, 4, 3, 3), "v": (16, 10)}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = folder / f"net{opset}.onnx"
    onnx.save(made, path)
    return str(path)


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "samples.npz"
    np.savez(path, x=rng.standard_normal((6, 4, 12, 12)).astype(np.float32))
    return str(path)


@pytest.mark.parametrize("opset", [11, 17])
def test_a_file_is_quantised_by_its_samples(opset, tmp_path, samples):
    """What it lost is what ONNX Runtime loses by the same file."""
    before, after = written(tmp_path, opset), str(tmp_path / "narrow.onnx")
    killed, young = tmp_path / ".narrow.onnx.1.part", tmp_path / ".narrow.onnx.2.part"
    for folder in (killed, young):  # of earlier ones, of which one may still be at work
        folder.mkdir()
    (killed / "prepared.onnx").write_text("half")
    os.utime(killed, (0, 0))
    made = quantise(QuantiseRequest(before, after, samples))
    assert (made.narrow, made.products, made.samples, made.random) == (2, 2, 6, False)
    assert made.after < made.before
    with np.load(samples) as file:
        feed = {"x": file["x"]}
        outputs = [load_peer("onnxruntime", p, 1, exact=True).run(feed) for p in (after, before)]
    theirs = loss_of([tuple(outputs)])
    assert 0 < made.loss.largest < 0.1
    assert made.loss.largest == pytest.approx(theirs.largest, rel=0.2)
    assert made.loss.mean == pytest.approx(theirs.mean, rel=0.2)
    assert (made.loss.agreeing, made.loss.classified) == (theirs.agreeing, 6)
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {f"net{opset}.onnx", "narrow.onnx", "samples.npz", young.name}


def test_what_is_kept_and_what_is_computed_in_each_run(model, samples, tmp_path):
    kept = quantise(QuantiseRequest(model, str(tmp_path / "a.onnx"), samples, keep=("node0",)))
    assert (kept.narrow, kept.products) == (1, 2)
    dynamic = quantise(QuantiseRequest(model, str(tmp_path / "b.onnx"), samples, "dynamic"))
    assert (dynamic.narrow, dynamic.products) == (1, 2)
    assert 0 < dynamic.loss.largest < 0.1


@pytest.mark.parametrize("lowest", ["-inf", "-3.4028e38"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_holds_a_mask_stays_in_float(lowest, tmp_path):
    """In 8 bits a scale of infinity would make NaN of all, and a large one zeros of scores."""
    text = (
        OPSET.replace("{opset}", "17")
        + """
    net (float[4, 16] x, bool[4, 4] seen) => (float[4, 16] y)
    <float zero = {0.0}, float below = {LOWEST}> {
      q = MatMul(x, w)
      k = Transpose(x)
      scores = MatMul(q, k)
      mask = Where(seen, zero, below)
      masked = Add(scores, mask)
      shares = Softmax(masked)
      mixed = MatMul(shares, x)
      y = MatMul(mixed, v)
    }
    """.replace("LOWEST", lowest.replace("-inf", "-1.0"))
    )
    made = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for name in ("w", "v"):
        array = 0.1 * rng.standard_normal((16, 16)).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    below = next(t for t in made.graph.initializer if t.name == "below")
    below.CopyFrom(onnx.numpy_helper.from_array(np.float32(lowest).reshape(()), "below"))
    path = tmp_path / "masked.onnx"
    onnx.save(made, path)
    samples = tmp_path / "samples.npz"
    data = rng.standard_normal((2, 4, 16)).astype(np.float32)
    np.savez(samples, x=data, seen=np.tril(np.ones((2, 4, 4), bool)))
    found = quantise(QuantiseRequest(str(path), str(tmp_path / "a.onnx"), str(samples)))
    assert (found.narrow, found.products) == (4, 4)
    assert 0 < found.loss.largest < 0.05


def test_a_file_of_8_bits_is_not_quantised_again(model, samples, tmp_path):
    once = str(tmp_path / "once.onnx")
    quantise(QuantiseRequest(model, once, samples))
    with pytest.raises(NetworkError, match=r"once\.onnx is quantised already \(QuantizeLinear\)"):
        quantise(QuantiseRequest(once, str(tmp_path / "twice.onnx"), samples))


def test_random_samples_are_at_the_typical_points(model, tmp_path):
    made = quantise(QuantiseRequest(model, str(tmp_path / "a.onnx"), shapes=("batch=1..8:2,4",)))
    assert made.random and made.loss.classified == 4 * 2 + 4 * 4


DENSE = """
net (float[batch, 48] x) => (float[batch, 10] y) {
  a = Gemm<transB = 1>(x, w, b)
  c = Relu(a)
  y = Gemm(c, v, d)
}
"""


def dense(folder):
    rng = np.random.default_rng(0)
    made = onnx.parser.parse_model(OPSET.replace("{opset}", "17") + DENSE)
    for i, node in enumerate(made.graph.node):
        node.name = f"node{i}"
    for name, shape in {"w": (64, 48), "b": (64,), "v": (64, 10), "d": (10,)}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(made, folder / "dense.onnx")
    return str(folder / "dense.onnx")


@pytest.mark.parametrize(
    "how",
    [WeightsOnly(block=16), WeightsOnly(4, 32, True, 0), WeightsOnly(8, 64, level=0)],
    ids=str,
)
def test_weights_alone_are_packed(how, tmp_path):
    """Dense layers as well; what it lost is what ONNX Runtime loses by the same file."""
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx_ir")
    before, after = dense(tmp_path), str(tmp_path / "narrow.onnx")
    x = np.random.default_rng(1).standard_normal((6, 48)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    made = quantise(QuantiseRequest(before, after, str(tmp_path / "samples.npz"), weights=how))
    assert (made.narrow, made.products, made.samples) == (2, 2, 6)
    assert made.after < made.before
    nodes = [n for n in onnx.load(after).graph.node if n.op_type == "MatMulNBits"]
    for node in nodes:
        attrs = {a.name: a.i for a in node.attribute}
        assert (attrs["bits"], attrs["block_size"]) == (how.bits, how.block)
        assert attrs.get("accuracy_level", 0) == how.level
        assert (len(node.input) > 3) == how.zeros
    outputs = [ort.InferenceSession(p).run(None, {"x": x}) for p in (after, before)]
    assert made.loss.largest == pytest.approx(loss_of([tuple(outputs)]).largest, rel=0.05)
    assert str(made.loss).startswith(f"weights of {how.bits} bits against float32, on 6 samples")


def test_a_reduced_range_holds_weights_below_65(model, samples, tmp_path):
    """Where products of bytes are added in pairs of 16 bits, those sums stay below 2**15."""
    place = str(tmp_path / "narrow.onnx")
    quantise(QuantiseRequest(model, place, samples, reduce_range=True))
    some = [numpy_helper.to_array(t) for t in onnx.load(place).graph.initializer]
    weights = [w for w in some if w.dtype == np.int8 and w.ndim > 1]
    assert len(weights) == 2
    assert {int(np.abs(w.astype(int)).max()) for w in weights} == {64}


def test_weights_are_not_packed_again(tmp_path):
    pytest.importorskip("onnx_ir")
    once = str(tmp_path / "once.onnx")
    quantise(QuantiseRequest(dense(tmp_path), once, weights=WeightsOnly()))
    with pytest.raises(NetworkError, match="2 have weights of few bits already"):
        quantise(QuantiseRequest(once, str(tmp_path / "b.onnx"), weights=WeightsOnly()))


def test_packed_weights_may_be_kept_out(tmp_path):
    pytest.importorskip("onnx_ir")
    source, place = dense(tmp_path), str(tmp_path / "a.onnx")
    some = quantise(QuantiseRequest(source, place, keep=("node0",), weights=WeightsOnly()))
    assert (some.narrow, some.products) == (1, 2)
    with pytest.raises(NetworkError, match="no product that may change has constant weights"):
        quantise(QuantiseRequest(source, place, keep=("node0", "node2"), weights=WeightsOnly()))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (WeightsOnly(block=24), "--block is 24; it must be a power of two from 16 on"),
        (WeightsOnly(block=8), "--block is 8; it must be a power of two"),
        (WeightsOnly(level=5), "--level is 5; it must be 0 to 4"),
        (WeightsOnly(bits=3), "weights of 3 bits are not made"),
    ],
    ids=str,
)
def test_packed_weights_that_are_none(how, said, model, tmp_path):
    with pytest.raises(NetworkError, match=said):
        quantise(QuantiseRequest(model, str(tmp_path / "a.onnx"), weights=how))


def test_the_loss_is_the_worst_output_s():
    a, b = np.float32([[0, 1]]), np.float32([[1, 0]])
    wide = np.float32([[[3.0, 4.0]]])
    found = loss_of([([a, wide], [b, wide]), ([b, wide + 1], [b, wide])])
    assert (found.largest, found.mean, found.samples) == (1.0, 0.5, 2)
    assert (found.agreeing, found.classified) == (1, 2)
    assert "the same class first in 1 of 2" in str(found)


# --- samples -------------------------------------------------------------------------------------

INPUTS = [End("ids", "int64", ("batch", 8)), End("mask", "float32", ("batch", 8))]
IDS, MASK = np.ones((6, 8), np.int32), np.ones((6, 8))


@pytest.mark.parametrize(
    ("shape", "arrays", "count", "each"),
    [
        (("batch", 8), (6, 8), 6, (1, 8)),
        ((2, 8), (6, 8), 3, (2, 8)),
        ((2, 8), (6, 2, 8), 6, (2, 8)),
        ((None, 8), (6, 8), 1, (6, 8)),
        ((), (3,), 3, ()),
    ],
)
def test_arrays_are_cut_into_samples(shape, arrays, count, each, tmp_path):
    np.savez(tmp_path / "s.npz", x=np.zeros(arrays, np.float32))
    found = read_samples(str(tmp_path / "s.npz"), [End("x", "float32", shape)])
    assert [sample["x"].shape for sample in found] == [each] * count


def test_numbers_are_of_the_inputs_types(tmp_path):
    np.savez(tmp_path / "s.npz", ids=IDS, mask=MASK)
    found = read_samples(str(tmp_path / "s.npz"), INPUTS)
    assert len(found) == 6
    assert (found[0]["ids"].dtype, found[0]["mask"].dtype) == (np.int64, np.float32)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"ids": IDS}, "it has no array 'mask'; the inputs are ids, mask, its arrays ids"),
        ({"ids": IDS, "mask": MASK, "x": MASK}, "'x' is no input; the inputs are ids, mask"),
        ({"ids": MASK, "mask": MASK}, "'ids' holds float64, and the input is int64"),
        ({"ids": IDS[:, :7], "mask": MASK}, "'ids' is 1 x 7, and the input is batch x 8"),
        ({"ids": IDS[:4], "mask": MASK}, "samples is needed; there are 4 of ids"),
        ({"ids": IDS[:0], "mask": MASK[:0]}, "it holds no samples: its arrays are empty"),
        ({"ids": IDS, "mask": MASK * np.nan}, "'mask' holds NaN, of which no range can be seen"),
        ({"ids": IDS, "mask": np.ones(())}, "'mask' is a number, and the input is batch x 8"),
        ({"ids": IDS, "mask": np.array([None])}, "no pickled objects"),
        (MASK, "samples are read from .npz files"),
        (None, "samples are read from .npz files"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else "",
)  # fmt: skip
def test_samples_that_do_not_fit_are_refused_in_a_line(arrays, why, tmp_path):
    path = tmp_path / "s.npz"
    if arrays is None:
        path.write_bytes(b"x")
    elif isinstance(arrays, np.ndarray):
        with path.open("wb") as file:
            np.save(file, arrays)
    else:
        np.savez(path, **arrays)
    with pytest.raises(NetworkError) as error:
        read_samples(str(path), INPUTS)
    assert why in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"network": "nowhere.onnx"}, "nowhere.onnx: there is no such file"),
        ({"output": "net.tw"}, "net.tw: a quantised network is written as an .onnx file"),
        ({"output": "/nowhere/net.onnx"}, "there is no folder '/nowhere'"),
        ({"keep": ("pool",)}, "--keep pool: "),
        ({"calibrate": "nowhere.npz"}, "nowhere.npz: No such file"),
    ],
)
def test_what_cannot_be_quantised(change, why, model, samples, tmp_path):
    fields = {"network": model, "output": str(tmp_path / "a.onnx"), "calibrate": samples}
    with pytest.raises(NetworkError) as error:
        quantise(QuantiseRequest(**{**fields, **change}))
    assert why in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "a.onnx").exists()


def test_a_sample_that_the_network_cannot_run_is_told_in_a_line(tmp_path):
    """In either scheme: the dynamic one runs none of them before."""
    text = (
        OPSET.replace("{opset}", "17")
        + """
    net (int64[1] i, float[1, 8] x) => (float[1, 4] y) {
      row = Gather(table, i)
      z = Add(row, x)
      y = MatMul(z, w)
    }
    """
    )
    model = onnx.parser.parse_model(text)
    for name, shape in {"table": (3, 8), "w": (8, 4)}.items():
        array = np.ones(shape, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "s.npz", i=np.array([[7]]), x=np.ones((1, 1, 8), np.float32))
    for scheme in ("static", "dynamic"):
        with pytest.raises(NetworkError, match="ONNX Runtime") as error:
            quantise(
                QuantiseRequest(
                    str(tmp_path / "net.onnx"), str(tmp_path / "a.onnx"),
                    str(tmp_path / "s.npz"), scheme,
                )
            )  # fmt: skip
        assert "\n" not in str(error.value)
    assert {p.name for p in tmp_path.iterdir()} == {"net.onnx", "s.npz"}


# --- as a precision ------------------------------------------------------------------------------


def test_a_precision_of_8_bits(tmp_path):
    """The same tasks as of the file, whatever the samples: scales are data."""
    spec = NetworkSpec("mlp", precision="int8")
    found = extract(spec, TARGET)
    assert found.precision == "f32" and found.loss is not None and found.loss.samples == 8
    assert found.notes == [str(found.loss)]
    made = quantise(QuantiseRequest("mlp", str(tmp_path / "mlp.onnx"), method="percentile"))
    assert made.narrow == made.products == 3
    again, _ = tw.extract_tasks(tw.from_onnx(tmp_path / "mlp.onnx"), TARGET)
    assert {t.workload_key for t in again} == {t.workload_key for t in found.tasks}
    module = tw.compile(found.network, TARGET)
    checked = check.check_output(module, found.network)
    assert checked.passed


def test_a_precision_of_weights_of_4_bits():
    """The products' weights are packed; the compiled network is right, and says what it lost."""
    spec = NetworkSpec("mlp", precision="int4")
    found = extract(spec, TARGET)
    assert found.precision == "f32" and found.loss is not None
    assert found.loss.what == "weights of 4 bits" and 1e-3 < found.loss.largest < 0.3
    assert spec_fingerprint(spec) not in [
        spec_fingerprint(NetworkSpec("mlp", precision=other)) for other in ("f32", "int8")
    ]
    found_right = found.check(tw.compile(found.network, TARGET))
    assert found_right.passed and found_right.max_rel_error < 1e-3


def test_data_that_a_run_rounds(tmp_path):
    """Against what is written of the network, and the file itself: both round as it does."""
    place = str(tmp_path / "mlp.onnx")
    quantise(QuantiseRequest("mlp", place, scheme="dynamic"))
    net = tw.from_onnx(place)
    module = tw.compile(net, TARGET)
    for source in ("", place):
        found = check.check_output(module, net, source=source)
        assert found.passed and found.tolerance == 0.02
        assert found.reference.startswith("onnxruntime")


def test_what_rounding_alone_makes_of_a_network_decides(tmp_path, monkeypatch):
    """Beyond the usual tolerance; an output that is wrong stays so."""
    place = str(tmp_path / "mlp.onnx")
    quantise(QuantiseRequest("mlp", place, scheme="dynamic"))
    net = tw.from_onnx(place)
    module = tw.compile(net, TARGET)
    monkeypatch.setattr(check, "_ROUNDED", 1e-9)
    found = check.check_output(module, net)
    assert found.passed and 0 < check._sides(net, {}, 0) < 1e-2
    assert not check.check_output(Liar(module, 1.1), net).passed


def test_a_call_that_is_wrong_by_itself_is_named(tmp_path, monkeypatch):
    """However far rounding may carry the whole network."""
    from tilework.compiler import single

    place = str(tmp_path / "mlp.onnx")
    quantise(QuantiseRequest("mlp", place, scheme="dynamic"))
    net = tw.from_onnx(place)
    module, real = tw.compile(net, TARGET), single.compile_task
    monkeypatch.setattr(check, "_sides", lambda *_: 1.0)
    assert check.check_output(Liar(module, 1.5), net).passed

    def lying(task, **schedule):
        function = real(task, **schedule)
        broken = "dense" in task.desc
        return lambda *inputs: [1.05 * y if broken else y for y in function(*inputs)]

    monkeypatch.setattr(single, "compile_task", lying)
    found = check.check_output(Liar(module, 1.5), net)
    assert not found.passed
    assert found.call.startswith("dense") and f"{found.call} is wrong by itself" in found.fault


def test_samples_are_part_of_a_networks_identity(samples, model):
    plain = NetworkSpec(model, precision="int8", shapes=("batch=2",))
    given = NetworkSpec(model, precision="int8", shapes=("batch=2",), calibrate=samples)
    assert len({spec_fingerprint(plain), spec_fingerprint(given)}) == 2


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (NetworkSpec("mlp", calibrate="a.npz"), "it belongs to --precision int8 or int4"),
        (NetworkSpec("mlp", precision="int8", sparse=Sparse(0.5, (16, 1))), "exclude each other"),
        (NetworkSpec("mlp", precision="int4", sparse=Sparse(0.5, (16, 1))), "exclude each other"),
    ],
)
def test_forms_that_exclude_each_other(spec, why):
    with pytest.raises(NetworkError, match=why):
        extract(spec, TARGET)


def test_an_engine_that_rounds_otherwise_decides_nothing(monkeypatch):
    """A step more here and there is nobody's mistake; a wrong output still is."""
    found = extract(NetworkSpec("mlp", precision="int8"), TARGET)
    module = tw.compile(found.network, TARGET)
    (right,) = (np.array(o) for o in module.run(random_inputs(found.network)))
    other = SimpleNamespace(name="another", run=lambda inputs: [right * 1.1])
    monkeypatch.setattr(check, "load_peer", lambda *_, **__: other)
    assert check.check_output(module, found.network) == check.CheckResult("NumPy", 0.0)
    wrong = SimpleNamespace(run=lambda inputs: [right * 1.2], image=module.image)
    found_wrong = check.check_output(wrong, found.network)
    assert found_wrong.reference == "NumPy" and not found_wrong.passed
    dense = extract(NetworkSpec("mlp"), TARGET)
    module = tw.compile(dense.network, TARGET)
    assert check.check_output(module, dense.network).reference == "another"
