"""``DynamicQuantizeLSTM`` beside ONNX Runtime: sums of bytes, and all else an LSTM has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilework as tw
from tests.graph.microsoft_models import one_node, run_here, run_runtime
from tests.graph.run_plan import relative_error
from tilework.errors import NetworkError
from tilework.graph import from_onnx

STEPS, HIDDEN = 5, 8


def layer(
    rng: np.random.Generator, batch: int, directions: int, by_channel: bool, dtype: type
) -> list[tuple[str, np.ndarray] | None]:
    """Inputs; weights of 7 bits, for ONNX Runtime saturates sums of more on some CPUs."""
    size, width = int(rng.integers(1, 11)), 4 * HIDDEN
    scales = (directions, width) if by_channel else (directions,)
    middle = 0 if dtype is np.int8 else int(rng.integers(90, 160))

    def array(*shape: int) -> np.ndarray:
        return (0.5 * rng.standard_normal(shape)).astype(np.float32)

    def weights(rows: int) -> np.ndarray:
        numbers = rng.integers(-64, 65, (directions, rows, width)) + middle
        return numbers.astype(dtype)

    def parameters(name: str) -> list[tuple[str, np.ndarray]]:
        step = rng.uniform(0.001, 0.01, scales).astype(np.float32)
        return [(f"{name}_scale", step), (f"{name}_zero", np.full(scales, middle, dtype))]

    def sometimes(name: str, value: np.ndarray) -> Any:
        return (name, value) if rng.random() < 0.5 else None

    return [
        ("x", array(STEPS, batch, size)),
        ("w", weights(size)),
        ("r", weights(HIDDEN)),
        sometimes("b", array(directions, 2 * width)),
        None,
        sometimes("h", array(directions, batch, HIDDEN)),
        sometimes("c", array(directions, batch, HIDDEN)),
        sometimes("p", array(directions, 3 * HIDDEN)),
        *parameters("w"),
        *parameters("r"),
    ]


def of(inputs: list[tuple[str, np.ndarray] | None], **attrs: Any) -> tuple[Any, dict[str, Any]]:
    arrays = dict(i for i in inputs if i)
    constants = [n for n in arrays if n[0] in "wrbp"]
    outputs = ("y", "last", "cell")
    return one_node("DynamicQuantizeLSTM", inputs, outputs, constants, **attrs), arrays


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_onnx_runtime_computes(dtype, by_channel, seed):
    rng = np.random.default_rng((seed, by_channel, dtype is np.int8))
    directions, batch = 1 + seed % 2, (1, 3, 2)[seed]
    one_way = ("forward", "reverse")[seed // 2]
    attrs: dict[str, Any] = {
        "hidden_size": HIDDEN, "input_forget": int(rng.integers(2)),
        "direction": "bidirectional" if directions == 2 else one_way,
    }  # fmt: skip
    if rng.random() < 0.5:
        attrs["clip"] = 0.7
    model, inputs = of(layer(rng, batch, directions, by_channel, dtype), **attrs)
    for ours, theirs in zip(run_here(model, inputs), run_runtime(model, inputs), strict=True):
        assert relative_error(ours, theirs) < 2e-6


def test_steps_that_a_run_brings(monkeypatch):
    monkeypatch.setattr("tests.graph.test_quantised_recurrent.STEPS", 80)
    model, arrays = of(
        layer(np.random.default_rng(0), 2, 2, True, np.uint8),
        hidden_size=HIDDEN, direction="bidirectional",
    )  # fmt: skip
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    net = from_onnx(model, {"n": "1..80"})
    module = tw.compile(net, tw.Target("llvm -num-cores=1"))
    for steps in (80, 7):
        part = {name: arrays[name] for name in net.inputs} | {"x": arrays["x"][:steps]}
        for ours, theirs in zip(module.run(part), run_runtime(model, part), strict=True):
            assert relative_error(ours, theirs) < 2e-6


def test_what_is_refused():
    rng = np.random.default_rng(0)
    inputs = layer(rng, 2, 1, False, np.int8)
    attrs = {"hidden_size": HIDDEN}

    def refused(what: str, **changed: np.ndarray) -> None:
        places = {"lengths": 4, "w_scale": 8, "w_zero": 9, "scale_of_r": 10}
        other = list(inputs)
        for name, array in changed.items():
            other[places[name]] = name, array
        with pytest.raises(NetworkError, match=what):
            from_onnx(of(other, **attrs)[0])

    three = (1, 3)
    refused("scales are positive numbers", w_scale=np.zeros(1, np.float32))
    refused("3 scales", w_scale=np.ones(three, np.float32))
    refused(
        "one number for each direction",
        w_scale=np.ones(three, np.float32), w_zero=np.zeros(three, np.int8),
    )  # fmt: skip
    refused("uint8", w_zero=np.zeros(1, np.uint8))
    refused("have to be constants", scale_of_r=np.ones(1, np.float32))
    refused("different lengths", lengths=np.array([2, 5], np.int32))
