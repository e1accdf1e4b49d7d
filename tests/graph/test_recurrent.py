"""Recurrent layers beside ONNX Runtime: attributes at random, and what their steps cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.microsoft_models import Arrays, one_node, run_here, run_runtime
from tests.graph.operator_cases import Cases
from tests.graph.run_plan import relative_error
from tilework.errors import NetworkError
from tilework.graph import from_onnx, plan
from tilework.graph.onnx import to_model

TARGET = "llvm -mcpu=native -num-cores=1"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
# with alpha and beta always given: where they are missing, ONNX Runtime takes 0 for some
WITH_ALPHA = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")
WITH_BETA = ("Affine", "HardSigmoid", "ScaledTanh")
ACTIVATIONS = (*WITH_ALPHA, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")

Given = list["tuple[str, np.ndarray] | None"]


def layer(
    rng: np.random.Generator, kind: str, steps: int, batch: int, hidden: int, directions: int
) -> tuple[Given, dict[str, Any]]:
    """Inputs (None: left out) and attributes of a node, at random."""

    def array(*shape: int) -> np.ndarray:
        return (0.25 * rng.standard_normal(shape)).astype(np.float32)

    def sometimes(name: str, value: np.ndarray, share: float = 0.5) -> Any:
        return (name, value) if rng.random() < share else None

    width, size = GATES[kind] * hidden, int(rng.integers(1, 7))
    inputs: Given = [
        ("x", array(steps, batch, size)),
        ("w", array(directions, width, size)),
        ("r", array(directions, width, hidden)),
        sometimes("b", array(directions, 2 * width), 0.7),
        sometimes("lengths", rng.integers(1, steps + 1, batch).astype(np.int32)),
        sometimes("h", array(directions, batch, hidden)),
    ]
    one_way = str(rng.choice(["forward", "reverse"]))
    a: dict[str, Any] = {"hidden_size": hidden}
    a["direction"] = "bidirectional" if directions == 2 else one_way
    if kind == "LSTM":
        inputs.append(sometimes("c", array(directions, batch, hidden)))
        inputs.append(sometimes("p", array(directions, 3 * hidden)))
        a["input_forget"] = int(rng.random() < 0.3)
    if kind == "GRU":
        a["linear_before_reset"] = int(rng.integers(2))
    if rng.random() < 0.4:
        a["clip"] = float(rng.uniform(0.3, 2))
    if rng.random() < 0.5:
        names = [str(rng.choice(ACTIVATIONS)) for _ in range(FUNCTIONS[kind] * directions)]
        a["activations"] = names
        for key, those in (("activation_alpha", WITH_ALPHA), ("activation_beta", WITH_BETA)):
            numbers = [float(rng.uniform(0.1, 1)) for n in names if n in those]
            a |= {key: numbers} if numbers else {}
    return inputs, a


def of(
    kind: str, inputs: Given, constants: str = "wrbp", **attrs: Any
) -> tuple[onnx.ModelProto, Arrays]:
    arrays = dict(i for i in inputs if i)
    outputs = ["y", "last", "cell"][: 3 if kind == "LSTM" else 2]
    weights = [n for n in arrays if n in constants]
    return one_node(kind, inputs, outputs, weights, domain="", **attrs), arrays


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("seed", range(8))
def test_attributes_at_random(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, GATES[kind]])
    for _ in range(4):
        steps, batch, hidden, directions = (int(rng.integers(1, n)) for n in (9, 5, 7, 3))
        inputs, attrs = layer(rng, kind, steps, batch, hidden, directions)
        constants = "wrbp" if rng.random() < 0.7 else ""
        model, arrays = of(kind, inputs, constants, **attrs)
        want = run_runtime(model, arrays)
        for got, one in zip(run_here(model, arrays), want, strict=True):
            assert got.shape == one.shape and np.isfinite(one).all()
            np.testing.assert_allclose(got, one, rtol=3e-5, atol=1e-5 * np.abs(one).max())


@pytest.mark.parametrize("kind", GATES)
def test_the_batch_first(kind: str) -> None:
    """ONNX Runtime has none, so that arrays are turned."""
    rng = np.random.default_rng(GATES[kind])
    inputs, attrs = layer(rng, kind, 4, 3, 5, 2)
    inputs[4:6] = [
        ("lengths", np.array([4, 1, 3], np.int32)),
        ("h", rng.standard_normal((2, 3, 5)).astype(np.float32)),
    ]
    model, arrays = of(kind, inputs, **attrs)
    want = run_here(model, arrays)

    def turned(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.swapaxes(0, 1))

    other: Given = [(i[0], turned(i[1])) if i and i[0] in ("x", "h", "c") else i for i in inputs]
    y, *lasts = run_here(*of(kind, other, layout=1, **attrs))
    np.testing.assert_allclose(y, want[0].transpose(2, 0, 1, 3), rtol=1e-6, atol=1e-7)
    for last, one in zip(lasts, want[1:], strict=True):
        np.testing.assert_allclose(last, turned(one), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", GATES)
def test_compiled_and_exported(kind: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    cases = Cases(14)
    x, lengths = cases.input(rng.standard_normal((12, 3, 20), np.float32)), ""
    for direction in ("forward", "bidirectional"):
        d = 1 + (direction == "bidirectional")
        shapes = ((d, GATES[kind] * 17, 20), (d, GATES[kind] * 17, 17), (d, GATES[kind] * 34))
        weights = [cases.constant(0.4 * rng.standard_normal(s)) for s in shapes]
        attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
        cases.node(
            kind, x, *weights, lengths, outputs=3 if kind == "LSTM" else 2, hidden_size=17,
            direction=direction, **attrs,
        )  # fmt: skip
        lengths = cases.input(np.array([12, 5, 9], np.int32))
    cases.check(tmp_path, rtol=2e-5)


@pytest.mark.parametrize("kind", GATES)
def test_all_steps_are_the_same_tasks(kind: str) -> None:
    """And nothing is moved: slices and the concatenation are places."""
    rng = np.random.default_rng(2)
    attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
    counts = []
    for steps in (10, 20):
        inputs, _ = layer(rng, kind, steps, 2, 16, 1)
        inputs[3:] = [
            ("b", np.ones((1, 32 * GATES[kind]), np.float32)),
            None,
            ("h", np.ones((1, 2, 16), np.float32)),
        ]
        model, arrays = of(kind, inputs, hidden_size=16, **attrs)
        net = from_onnx(model)
        calls = plan(net, target=tw.Target(TARGET)).calls
        counts.append((len({c.dag.workload_key for c in calls if c.complex}), len(calls)))
        module = tw.compile(net, TARGET)
        names = [step.name for step in module.image.steps]
        assert len(names) <= 3 * steps + 4 and not {"slice", "concat"} & set(names)
        for got, want in zip(
            module.run({n: arrays[n] for n in net.inputs}), run_runtime(model, arrays), strict=True
        ):
            assert relative_error(got, want) < 1e-5
    assert counts[0][0] == counts[1][0] <= 2


def test_a_batch_that_a_run_brings() -> None:
    rng = np.random.default_rng(3)
    inputs, _ = layer(rng, "LSTM", 5, 3, 8, 2)
    inputs[3:] = []
    model, arrays = of("LSTM", inputs, hidden_size=8, direction="bidirectional")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    module = tw.compile(from_onnx(model, {"n": "1..4"}), TARGET)
    for n in (1, 3):
        part = {"x": arrays["x"][:, :n]}
        for got, want in zip(module.run(part), run_runtime(model, part), strict=True):
            assert got.shape == want.shape and relative_error(got, want) < 1e-5


def test_thousands_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    inputs, _ = layer(rng, "GRU", 3000, 1, 4, 2)
    model, arrays = of("GRU", inputs[:3], hidden_size=4, direction="bidirectional")
    net = from_onnx(model)
    given = {"x": arrays["x"]}
    for got, want in zip(
        tw.compile(net, TARGET).run(given), run_runtime(model, given), strict=True
    ):
        assert relative_error(got, want) < 1e-5
    monkeypatch.setattr("tilework.graph.unrolled._MOST", 3000)
    with pytest.raises(NetworkError, match=r"has 3000 trips of \d+ nodes; where calls"):
        to_model(net)


def test_what_is_refused() -> None:
    array = np.zeros((1, 1, 1), np.float32)
    x = np.zeros((2, 1, 1), np.float32)
    given = [("x", x), ("w", array), ("r", array)]
    model, _ = of("RNN", given, hidden_size=1, activations=["Wobble"])
    with pytest.raises(NetworkError, match="the activation wobble is not known"):
        from_onnx(model)
