"""Compiled networks of which ONNX Runtime runs parts: runs, folders, and what goes wrong."""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import onnxruntime as ort
import pytest

import tilework as tw
from tests.graph.cut_models import (
    BRANCH,
    DETECTION,
    FOLLOWED,
    LOOP,
    SCALED,
    SEQUENCE,
    TWICE,
    feeds_of,
    model,
    same,
    whole,
)
from tilework.errors import ModuleError, ShapeError
from tilework.runtime import aligned_copy
from tilework.runtime.parts import PartedModule

TARGET = "llvm -mcpu=native -num-cores=2"


def compiled(text: str, feeds=None) -> tuple[PartedModule, dict[str, np.ndarray], list]:
    m = model(text)
    feeds = feeds or feeds_of(m)
    parts = tw.from_onnx(m, {n: a.shape for n, a in feeds.items()}, strict=False)
    return tw.compile(parts, TARGET), feeds, whole(m, feeds)


@pytest.fixture(scope="module")
def twice():
    return compiled(TWICE)


@pytest.fixture(scope="module")
def detection():
    return compiled(DETECTION)


@pytest.mark.parametrize("text", [LOOP, BRANCH, SEQUENCE], ids=["loop", "branch", "sequence"])
def test_a_run_computes_what_the_model_does(text):
    module, feeds, expected = compiled(text)
    assert isinstance(module, PartedModule)
    assert same(module.run(feeds), expected)


def test_modules_say_what_they_are(twice):
    module, feeds, expected = twice
    assert same(module.run(*feeds.values()), expected)
    assert [v.name for v in module.outputs] == ["y", "s"]
    assert module.inputs["x"].shape == (3, 4)
    assert (
        "left to ONNX Runtime" in module.summary() and "ai.onnx.ml.Binarizer" in module.summary()
    )
    assert sum(row.weight for row in module.report) >= len(module.report) > 0
    rows = module.profile(repeat=1)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.desc.startswith("ONNX Runtime") for row in rows) == 2


def test_one_setting_for_the_threads_of_both(twice):
    module, feeds, expected = twice
    module.set_threads(1)
    assert {p.runner.num_threads for p in module.image.parts} == {1}
    assert same(module.run(feeds), expected)
    module.set_threads(2)
    assert {p.runner.num_threads for p in module.image.parts} == {2}
    with pytest.raises(ModuleError, match="at least 1"):
        module.set_threads(0)


def test_arrays_are_handed_over_where_they_lie(twice, monkeypatch):
    module, feeds, _ = twice
    seen = {}
    run = PartedModule.run_part

    def watched(self, part, values, point):
        found = run(self, part, values, point)
        for name in part.inputs:
            assert values[name].ctypes.data == seen.get(name, values[name].ctypes.data)
            assert values[name].ctypes.data % 64 == 0
        seen.update((n, a.ctypes.data) for n, a in zip(part.outputs, found, strict=True))
        return found

    monkeypatch.setattr(PartedModule, "run_part", watched)
    module.run({"x": aligned_copy(feeds["x"])})
    assert len(seen) == 6


def test_outputs_are_arrays_of_their_own():
    """Also where one is an input, and where it lies in what the other engine holds."""
    text = """g (float[3, 4] x) => (float[3, 4] x, float[3, 4] y, int64[2, K] z)
        { y = ai.onnx.ml.Binarizer <threshold = 0.123> (x) z = NonZero(y) }"""
    module, feeds, expected = compiled(text)
    first = module.run(feeds)
    kept = [a.copy() for a in first]
    module.run({"x": feeds["x"] + 1})
    assert same(first, kept) and same(first, expected)
    assert not np.may_share_memory(first[0], feeds["x"])


def test_bound_calls_write_the_same_arrays_again(twice, detection):
    module, feeds, expected = twice
    call = module.bind()
    call.inputs["x"][...] = feeds["x"]
    assert same(call(), expected)
    own = [np.empty_like(a) for a in expected]
    bound = module.bind({"x": aligned_copy(feeds["x"])}, own, threads=1)
    assert same(bound(), expected) and same(own, expected)
    module, feeds, expected = detection  # the number of boxes changes from call to call
    call = module.bind({n: aligned_copy(a) for n, a in feeds.items()})
    assert same(call(), expected)
    call.inputs["boxes"][...] = [0, 0, 1, 1]  # all are one place
    assert call()[0].shape[0] < expected[0].shape[0]
    call.inputs["boxes"][...] = feeds["boxes"]
    assert same(call(), expected)


def test_several_threads_run_one_module(detection):
    module, feeds, expected = detection
    wrong = []

    def work():
        for _ in range(20):
            if not same(module.run(feeds), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_inputs_are_checked(twice):
    module, feeds, _ = twice
    with pytest.raises(ModuleError, match=r"takes the inputs x float32\[3, 4\]; missing x"):
        module.run({})
    with pytest.raises(ModuleError, match=r"input x: expected float32\[3, 4\]"):
        module.run({"x": feeds["x"][:2]})


def test_a_failure_names_part_and_node():
    text = """g (float[3, 4] x, int64[2] at) => (float[2, 4] y)
        { a = ai.onnx.ml.Binarizer <threshold = 0.123> (x) y = Gather(a, at) }"""
    feeds = {"x": np.ones((3, 4), np.float32), "at": np.array([0, 2])}
    module, _, _ = compiled(text, feeds)
    with pytest.raises(ModuleError) as e:
        module.run({**feeds, "at": np.array([0, 7])})
    said = str(e.value)
    assert (
        said.startswith("g, part 1 of 1 (Binarizer, Gather): ONNX Runtime ") and "\n" not in said
    )
    assert "Name:'y'" in said


def test_what_neither_engine_takes_is_told_in_a_line():
    m = model("g (float[3, 4] x) => (float[3, 4] y) { y = com.microsoft.NoSuch(x) }")
    with pytest.raises(ModuleError, match="NoSuch") as e:
        tw.compile(tw.from_onnx(m, strict=False), TARGET)
    assert "cannot open it" in str(e.value) and "\n" not in str(e.value)


def test_what_the_other_engine_lacks_is_not_given_away():
    """A cheap operator in bfloat16, of which ONNX Runtime has no kernel for CPUs."""
    text = """g (bfloat16[3, 4] x, float[3, 4] v) => (bfloat16[3, 4] y, float[3, 4] w)
        { y = Mul(x, x) w = ai.onnx.ml.Binarizer <threshold = 0.123> (v) }"""
    parts = tw.from_onnx(model(text), strict=False)
    assert len(parts.parts) == 1
    module = tw.compile(parts, TARGET)
    assert len(module.modules) == 1
    x = np.arange(12).reshape(3, 4).astype(tw.runtime.arrays.numpy_dtype("bfloat16"))
    y, w = module.run({"x": x, "v": np.ones((3, 4), np.float32)})
    assert (y == x * x).all() and (w == 1).all()


def test_the_extra_is_missing_or_too_old(twice, tmp_path, monkeypatch):
    twice[0].save(tmp_path / "net.tw")
    parts = tw.from_onnx(model(TWICE), {"N": (3,)}, strict=False)
    monkeypatch.setattr(ort, "__version__", "1.9.0")
    with pytest.raises(ModuleError, match=r"Binarizer: left to ONNX Runtime, of which 1\.9\.0"):
        tw.compile(parts, TARGET)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for act in (lambda: tw.compile(parts, TARGET), lambda: tw.load_module(tmp_path / "net.tw")):
        with pytest.raises(ModuleError) as e:
            act()
        assert "not installed: pip install 'tilework[onnxruntime]'" in str(e.value)
        assert "\n" not in str(e.value)


# --- folders -----------------------------------------------------------------------------------


def test_a_folder_is_the_module_again(detection, tmp_path):
    module, feeds, expected = detection
    module.set_threads(1)
    module.save(tmp_path / "net.tw")
    module.set_threads(2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.tw"]
    again = tw.load_module(tmp_path / "net.tw")
    assert again.num_threads == 1 and again.left == module.left
    assert again.inputs == module.inputs and again.outputs == module.outputs
    assert same(again.run(feeds), expected)


def test_its_models_open_anywhere(tmp_path):
    """Large constants lie in a file of their own, as ONNX has it."""
    rows = ", ".join(f"{v:.3f}" for v in np.linspace(-1, 1, 512))
    text = f"""g (float[3, 16] x) => (float[3, 32] y) <float[16, 32] W = {{{rows}}}>
        {{ V = ai.onnx.ml.Binarizer <threshold = 0.123> (W) y = MatMul(x, V) }}"""
    module, feeds, expected = compiled(text)
    module.save(tmp_path / "net")
    assert (tmp_path / "net" / "0.weights").stat().st_size == 2048
    alone = ort.InferenceSession(tmp_path / "net" / "0.onnx")
    (v,) = alone.run(None, {})
    assert np.allclose(feeds["x"] @ v, expected[0], atol=1e-5)
    assert same(tw.load_module(tmp_path / "net").run(feeds), expected)


def test_files_and_folders_take_each_other_s_place(twice, mlp_module, tmp_path):
    module, feeds, expected = twice
    place = tmp_path / "net.tw"
    for saved in (mlp_module, module, module):
        saved.save(place)
    assert same(tw.load_module(place).run(feeds), expected)
    other = tmp_path / "papers"
    other.mkdir()
    (other / "letter").write_text("dear")
    with pytest.raises(ModuleError, match="a folder of something else is there"):
        module.save(other)
    assert [p.name for p in other.iterdir()] == ["letter"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.tw", "papers"]


def _newer(folder):
    document = json.loads((folder / "parts.json").read_text())
    (folder / "parts.json").write_text(json.dumps({**document, "version": 99}))


def _odd(folder):
    document = json.loads((folder / "parts.json").read_text())
    document["list"]["parts"].pop()
    (folder / "parts.json").write_text(json.dumps(document))


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "0.tw").unlink(), "lacks the part 0.tw"),
        (lambda f: (f / "1.onnx").unlink(), "lacks the part 1.onnx"),
        (lambda f: _flip(f / "1.onnx"), "1.onnx has a wrong checksum"),
        (lambda f: _flip(f / "0.tw"), "0.tw has a wrong checksum"),
        (lambda f: (f / "parts.json").write_text("{"), "is damaged"),
        (lambda f: (f / "parts.json").unlink(), "cannot read .*: it is a folder, and no module"),
        (_newer, "version 99 of the list"),
        (_odd, "a value is missing"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_line(twice, tmp_path, damage, message):
    folder = tmp_path / "net.tw"
    twice[0].save(folder)
    damage(folder)
    with pytest.raises(ModuleError, match=message) as e:
        tw.load_module(folder)
    assert "\n" not in str(e.value)


def test_a_signature_covers_the_folder(twice, tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    twice[0].save(tmp_path / "net", private_key=key.private_bytes_raw())
    assert tw.load_module(tmp_path / "net", public_key=public).name == "g"
    twice[0].save(tmp_path / "net")
    with pytest.raises(ModuleError, match="is not signed"):
        tw.load_module(tmp_path / "net", public_key=public)


def test_no_library_is_made_of_it(twice, tmp_path):
    with pytest.raises(ModuleError, match="cannot become a shared library") as e:
        tw.write_library(twice[0], tmp_path / "net.so")
    assert "\n" not in str(e.value) and "Binarizer" in str(e.value)


@pytest.mark.parametrize(
    ("text", "ranges", "sizes"),
    [
        (FOLLOWED, {"N": "1..512:16,64"}, [{"N": n} for n in (1, 3, 16, 65, 512)]),
        (
            SCALED,
            {"H": "1..64:24", "W": "1..64:16"},
            [{"H": h, "W": w} for h, w in ((24, 16), (1, 1), (3, 64), (64, 7), (33, 31))],
        ),
    ],
    ids=["followed", "scaled"],
)
def test_parts_over_ranges_run_at_every_size(text, ranges, sizes, tmp_path):
    m = model(text)
    module = tw.compile(tw.from_onnx(m, ranges, strict=False), TARGET)
    assert isinstance(module, PartedModule)
    assert {s.name for s in module.symbols} == set(ranges)
    module.save(tmp_path / "net")
    again = tw.load_module(tmp_path / "net")
    (value,) = module.inputs.values()
    rng = np.random.default_rng(0)
    for at in sizes:
        shape = [at.get(str(n), n) for n in value.shape]
        feeds = {"x": rng.integers(-4, 5, shape).astype(np.float32)}
        expected = whole(m, feeds)
        assert same(module.run(feeds), expected) and same(again.run(feeds), expected)
        call = module.bind(at=at)
        call.inputs["x"][...] = feeds["x"]
        call()
        assert same(call.outputs, expected)
    assert module.benchmark(1, 1, at=sizes[0]).mean > 0
    assert len(module.profile(1, at=sizes[0])) >= len(module.image.parts)
    with pytest.raises(ShapeError, match="outside of its range"):
        module.run(np.zeros([n if isinstance(n, int) else 600 for n in value.shape], np.float32))
    with pytest.raises(ModuleError, match="bind all inputs, or say what symbols are"):
        module.bind()
