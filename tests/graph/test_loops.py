"""Steps of recurrent layers that a run repeats: every length beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.microsoft_models import Arrays, run_runtime
from tests.graph.run_plan import run_onnxruntime, run_plan
from tests.graph.test_recurrent import GATES, Given, layer, of
from tilework.errors import NetworkError
from tilework.graph import Network, from_onnx, plan
from tilework.graph.precision import Precision
from tilework.graph.unrolled import unrolled
from tilework.index.slots import along
from tilework.index.symbols import Undecided, symbol

LONGEST = 9
TARGETS = ("llvm -mcpu=native -num-cores=1", "llvm -mcpu=native -num-cores=2", "reference")


def opened(model: onnx.ModelProto, batch: bool = False, layout: int = 0) -> onnx.ModelProto:
    """The model with a number of steps ``t``, and a batch ``n``, that a run brings."""
    for given in model.graph.input:
        dims = given.type.tensor_type.shape.dim
        if given.name == "x":
            dims[layout].dim_param = "t"
        if batch and given.name in ("x", "h", "c"):
            dims[1 - layout if given.name == "x" else 1].dim_param = "n"
        if batch and given.name == "lengths":
            dims[0].dim_param = "n"
    return model


def fresh(rng: np.random.Generator, arrays: Arrays, steps: int, batch: int) -> Arrays:
    """The same inputs of other sizes."""
    out = dict(arrays)
    for name in ("x", "h", "c"):
        if name in out:
            first = steps if name == "x" else out[name].shape[0]
            shape = first, batch, out[name].shape[2]
            out[name] = (0.25 * rng.standard_normal(shape)).astype(np.float32)
    if "lengths" in out:
        out["lengths"] = rng.integers(1, steps + 1, batch).astype(np.int32)
    return out


def alike(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape
        most = max(np.abs(theirs).max(), 1e-3)
        np.testing.assert_allclose(mine, theirs, rtol=3e-5, atol=1e-5 * most)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("seed", range(4))
def test_attributes_at_random_and_every_length(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, GATES[kind], 26])
    batch, hidden, directions = (int(rng.integers(1, n)) for n in (5, 7, 3))
    inputs, attrs = layer(rng, kind, LONGEST, batch, hidden, directions)
    model, arrays = of(kind, inputs, "wrbp" if rng.random() < 0.7 else "", **attrs)
    open_batch = seed % 2 == 1
    ranges = {"t": f"1..{LONGEST}"} | ({"n": "1..6"} if open_batch else {})
    net = from_onnx(opened(model, open_batch), ranges)
    module = tw.compile(net, TARGETS[seed % len(TARGETS)])
    for steps in rng.permutation([1, 2, LONGEST, int(rng.integers(3, LONGEST))]):
        n = int(rng.integers(1, 7)) if open_batch else batch
        given = fresh(rng, arrays, steps, n)
        alike(module.run({v: given[v] for v in net.inputs}), run_runtime(model, given))


@pytest.mark.parametrize("kind", GATES)
def test_the_batch_first(kind: str) -> None:
    """ONNX Runtime has none, so that the layer with steps first says what is right."""
    rng = np.random.default_rng(GATES[kind])
    inputs, attrs = layer(rng, kind, LONGEST, 3, 5, 2)
    inputs[4:6] = [("lengths", np.array([4, 1, 9], np.int32)), None]
    inputs[6:] = []
    x = dict(i for i in inputs if i)["x"]
    model, arrays = of(kind, inputs, **attrs)
    turned: Given = [("x", np.ascontiguousarray(x.swapaxes(0, 1))), *inputs[1:]]
    other, _ = of(kind, turned, layout=1, **attrs)
    module = tw.compile(from_onnx(opened(other, layout=1), {"t": "1..9"}), TARGETS[0])
    for steps in (9, 4, 1):
        given = fresh(rng, arrays, steps, 3)
        want = [np.moveaxis(y, -2, 0) for y in run_runtime(opened(model), given)]
        mine = np.ascontiguousarray(given["x"].swapaxes(0, 1))
        alike(module.run({"x": mine, "lengths": given["lengths"]}), want)


def usual(kind: str, steps: int, directions: int = 1) -> tuple[onnx.ModelProto, Arrays]:
    """A layer without anything odd."""
    rng = np.random.default_rng(steps)
    inputs, _ = layer(rng, kind, steps, 2, 16, directions)
    inputs[3:] = [("b", np.ones((directions, 32 * GATES[kind]), np.float32))]
    attrs: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    way = "bidirectional" if directions == 2 else "reverse"
    return of(kind, inputs, hidden_size=16, direction=way, **attrs)


@pytest.mark.parametrize("kind", GATES)
def test_calls_do_not_grow_with_the_length(kind: str, tmp_path: Path) -> None:
    """A module of any length, from a file, profiled and bound; and it says how often."""
    model, arrays = usual(kind, 100)
    counts = []
    for longest in (5, 500):
        net = from_onnx(opened(model), {"t": f"1..{longest}:{longest}"})
        module = tw.compile(net, TARGETS[0])
        counts.append(len(module.image.steps))
        assert any(step.desc.startswith("t x dense+add") for step in module.image.steps)
        assert {r.weight for r in module.report} == {1, longest}
        assert {t.weight for t in tw.extract_tasks(net, TARGETS[0])[0]} == {1, longest}
    assert counts[0] == counts[1] <= 10
    module.save(tmp_path / "layer.tw")
    read = tw.load_module(tmp_path / "layer.tw")
    for steps in (100, 1, 500):
        given = fresh(np.random.default_rng(0), arrays, steps, 2)
        want = run_runtime(model, given)
        alike(read.run(given["x"]), want)
        call = read.bind(at={"t": steps})
        call.inputs["x"][...] = given["x"]
        for _ in range(2):
            call()
        alike(list(call.outputs), want)
    rows = read.profile(repeat=3, at={"t": 500})
    repeated = sum(row.share for row in rows if row.desc.startswith("t x"))
    assert len(rows) == counts[0] and repeated > 0.5
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_a_step_of_many_arguments_is_in_a_file(tmp_path: Path) -> None:
    """More than an assembler copies without a call of the C library, which files may not make."""
    rng = np.random.default_rng(3)
    inputs, _ = layer(rng, "LSTM", LONGEST, 3, 5, 2)
    state = np.ones((2, 3, 5), np.float32)
    inputs[4:] = [
        ("lengths", np.array([3, 2, 9], np.int32)), ("h", state), ("c", state),
        ("p", rng.standard_normal((2, 15)).astype(np.float32)),
    ]  # fmt: skip
    model, arrays = of("LSTM", inputs, hidden_size=5, direction="bidirectional", clip=1.5)
    module = tw.compile(from_onnx(opened(model), {"t": "1..9"}), TARGETS[0])
    assert min(len(repeat.advances) for repeat in module.image.repeats) > 16
    module.save(tmp_path / "layer.tw")
    read = tw.load_module(tmp_path / "layer.tw")
    alike(read.run({v: arrays[v] for v in read.inputs}), run_runtime(model, arrays))
    assert len(read.profile(repeat=2)) == len(module.image.steps)


@pytest.mark.parametrize("kind", GATES)
def test_many_steps_are_repeated_though_they_are_known(kind: str, tmp_path: Path) -> None:
    """And written out for those who do not repeat any: other kinds, engines, precisions."""
    model, arrays = usual(kind, 70, 2)
    net = from_onnx(model)
    want = run_runtime(model, arrays)
    module = tw.compile(net, TARGETS[0])
    assert len(module.image.repeats) == 2 and len(module.image.steps) < 24
    alike(module.run(arrays["x"]), want)
    module.save(tmp_path / "layer.tw")
    alike(tw.load_module(tmp_path / "layer.tw").run(arrays["x"]), want)
    alike(run_plan(unrolled(net), arrays["x"]), want)
    net.to_onnx(tmp_path / "layer.onnx")
    alike(run_onnxruntime(tmp_path / "layer.onnx", arrays["x"]), want)
    for planned in (
        plan(net, target=tw.Target("cuda -model=a100 -run=simulated")),
        plan(net, "bf16", tw.Target("llvm -mcpu=znver4 -num-cores=1")),
    ):
        assert len(planned.calls) > 2 * 2 * 70 and not planned.slots


@pytest.mark.parametrize("precision", ["bf16", "f16", "tf32"])
def test_a_loop_hands_on_float32_in_any_precision(precision: Precision) -> None:
    model, _ = usual("LSTM", 7)
    net = from_onnx(opened(model), {"t": "1..9"})
    planned = plan(net, precision, tw.Target("llvm -mcpu=sapphirerapids -num-cores=1"))
    assert sum(call.repeat is not None for call in planned.calls) == 3
    assert {planned.values[v].dtype for v in planned.slots} == {"float32"}
    for call in planned.calls:
        for name, tensor in zip((*call.inputs, call.output), call.dag.tensors, strict=True):
            assert planned.values[name] == (tensor.shape, tensor.dtype)


def test_at_a_point_a_network_has_a_length() -> None:
    model, arrays = usual("LSTM", 7)
    net = from_onnx(opened(model), {"t": "1..9"})
    (t,) = net.symbols
    alike(run_plan(net.at({t: 7}), arrays["x"]), run_runtime(model, arrays))


def test_what_is_around_a_loop_lives_as_long() -> None:
    """What a trip reads is there at the last one, whatever it computes in between."""
    rng = np.random.default_rng(7)
    inputs, _ = layer(rng, "GRU", 9, 4, 6, 2)
    inputs[3:] = [
        ("b", np.ones((2, 36), np.float32)),
        ("lengths", np.array([9, 2, 5, 1], np.int32)),
        ("h", rng.standard_normal((2, 4, 6)).astype(np.float32)),
    ]
    model, arrays = of("GRU", inputs, "", hidden_size=6, direction="bidirectional")
    net = from_onnx(opened(model), {"t": "1..9"})
    module = tw.compile(net, TARGETS[0])
    first, last = {}, {}
    for repeat in module.image.repeats:
        behind = repeat.first + repeat.count
        first |= dict.fromkeys(range(repeat.first, behind), repeat.first)
        last |= dict.fromkeys(range(repeat.first, behind), behind - 1)
    lives = module.image.lifetimes
    for number, step in enumerate(module.image.steps):
        for ref in step.args:
            if ref.space == "place" and number in first:
                life = lives[module.image.places[ref.at].lifetime]
                assert life.first >= first[number] or life.last >= last[number]
    alike(module.run({v: arrays[v] for v in net.inputs}), run_runtime(model, arrays))


def test_a_body_that_does_not_fit_is_refused() -> None:
    model, _ = usual("LSTM", 7)
    net = from_onnx(opened(model), {"t": "1..9"})
    (node,) = [n for n in net.nodes if n.op == "loop"]
    b = tw.graph.ir.Builder("odd")
    values = [b.input(v, net.types[v].shape) for v in node.inputs]
    with pytest.raises(NetworkError, match="its body takes"):
        b.op("loop", *values[::-1], **node.attrs)
    with pytest.raises(NetworkError, match=r"states .* become"):
        b.op("loop", *values, **{**node.attrs, "carried": 1})
    assert isinstance(node.attrs["body"], Network)


def test_how_extents_go_along_a_symbol() -> None:
    n, trip = symbol("n", 1, 8), symbol("trip", 0, 7)
    assert along(n * 4 - trip * n + 3, trip) == (n * 4 + 3, -n)
    assert along(n, trip) == (n, 0) and along(5, trip) == (5, 0) and along(n, 0) == (n, 0)
    for odd in (trip * trip, (trip + n) // 2):
        with pytest.raises(Undecided, match="not linear in trip"):
            along(odd, trip)
