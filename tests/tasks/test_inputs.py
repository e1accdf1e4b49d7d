"""Inputs made up for comparing and timing a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tilework as tw
from tasks.compare import compare_engines
from tasks.engines import random_inputs

FILE = Path(__file__).parents[1] / "data" / "models" / "transformer_opset12.onnx"


def test_token_ids_and_masks() -> None:
    net = tw.from_onnx(FILE, {"batch": (2,)})
    found = random_inputs(net)
    assert found["ids"].dtype == np.int64 and set(np.unique(found["ids"])) == {0, 1}
    assert found["mask"].dtype == bool and found["mask"].shape == (2, 16)
    target = tw.Target("llvm -mcpu=native -num-cores=1")
    found = compare_engines(net, target, None, ["onnxruntime"], 0.01)
    assert found.rows[1].max_rel_error < 1e-4
