"""Networks that ONNX Runtime's tools quantised: equal to its fused kernels, element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.quantized_models import (
    STATIC,
    by_onnx_runtime,
    inputs,
    quantised,
    with_bytes_as_outputs,
)
from tilework.graph import from_onnx


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray], path: Path) -> list[np.ndarray]:
    onnx.save(model, path)
    got = tw.compile(from_onnx(path), target="llvm -num-cores=1").run(*feed.values())
    return list(got) if isinstance(got, (list, tuple)) else [got]


@pytest.mark.parametrize("form", [f for f in STATIC if f.startswith("QDQ")])
@pytest.mark.parametrize("network", ["mobile", "resnet", "encoder"])
def test_every_quantised_tensor_is_that_of_the_fused_kernels(network, form, tmp_path):
    model = quantised(network, form, tmp_path)
    feed = inputs(model, np.random.default_rng(1))
    names = with_bytes_as_outputs(model)
    want = by_onnx_runtime(model, feed)
    got = run(model, feed, tmp_path / "all.onnx")
    assert names
    wrong = {}
    for name, y in zip(want, got, strict=True):
        if name in names:
            apart = np.abs(y.astype(int) - want[name].astype(int))
            if apart.any():
                wrong[name] = int((apart > 0).sum()), apart.size, int(apart.max())
    assert not wrong
