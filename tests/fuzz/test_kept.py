"""Models on which fuzzing found errors (listed in benchmarks/figures/fuzzing.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from tilework.session import Session, SessionOptions

MODELS = sorted((Path(__file__).parent / "models").glob("*.onnx"))


@pytest.mark.parametrize("path", MODELS, ids=[p.stem for p in MODELS])
def test_as_in_onnx_runtime(path):
    with np.load(path.with_suffix(".npz")) as file:
        inputs = {name: file[name] for name in file.files}
    want = ort.InferenceSession(path).run(None, inputs)
    for threads in (1, 2):
        options = SessionOptions()
        options.intra_op_num_threads = threads
        got = Session(path, options, cache=False).run(None, inputs)
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind == "f":
                assert np.allclose(a, b, rtol=1e-4, atol=2e-5 * max(np.abs(b).max(), 1e-30))
            else:
                assert np.array_equal(a, b)
