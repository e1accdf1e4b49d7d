"""Libraries of networks whose calls a run repeats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilework as tw
import tilework_runtime
from tests.graph.microsoft_models import run_runtime
from tests.graph.test_loops import alike, fresh, opened, usual
from tests.library.conftest import TARGET
from tilework.errors import ModuleError
from tilework.graph import from_onnx


@pytest.mark.parametrize(("kind", "shapes"), [("LSTM", {"t": "1..80"}), ("GRU", {"t": 80})])
def test_every_length(kind: str, shapes: dict[str, str | int], tmp_path: Path) -> None:
    """Forwards and backwards; strides are numbers, which are negative for one of them."""
    model, arrays = usual(kind, 80, 2)
    module = tw.compile(from_onnx(opened(model), shapes), TARGET)
    assert len(module.image.repeats) == 2
    tw.write_library(module, tmp_path / "layer.so")
    with tilework_runtime.load(tmp_path / "layer.so") as library:
        for steps in (80, 1, 33) if module.symbols else (80,):
            given = fresh(np.random.default_rng(steps), arrays, steps, 2)
            got = [np.array(y) for y in library.run(given["x"])]
            for mine, theirs in zip(got, module.run(given["x"]), strict=True):
                assert np.array_equal(mine, theirs)
            alike(got, run_runtime(model, given))


def test_the_last_trip_is_proved_to_lie_in_its_block(tmp_path: Path) -> None:
    model, _ = usual("RNN", 9)
    image = tw.compile(from_onnx(opened(model), {"t": "1..9"}), TARGET).image
    (repeat,) = image.repeats
    odd = replace(image, repeats=(replace(repeat, trips=repeat.trips + 1),))
    with pytest.raises(ModuleError, match="leaves its block"):
        tw.write_library(tw.runtime.Module(odd), tmp_path / "odd.so")
