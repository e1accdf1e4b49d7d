"""Files that other frameworks wrote, and their symbolic batches compiled, equal to ONNX Runtime.

As they are, `tests/session/test_session.py` compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tilework as tw
from tests.graph.run_plan import relative_error
from tilework.errors import NetworkError

FILES = sorted((Path(__file__).parents[1] / "data" / "models").glob("*.onnx"))
SYMBOLIC = [p for p in FILES if b"batch" in p.read_bytes()[-400:]]


def inputs_for(net: tw.graph.Network) -> dict[str, np.ndarray]:
    """Random inputs: token ids below 50, masks that keep the first tokens."""
    rng = np.random.default_rng(0)
    out: dict[str, np.ndarray] = {}
    for name, (shape, dtype) in net.inputs.items():
        if dtype == "int64":
            out[name] = rng.integers(0, 50, shape)
        elif dtype == "bool":
            out[name] = np.arange(shape[1]) < rng.integers(3, shape[1] + 1, (shape[0], 1))
        else:
            out[name] = rng.standard_normal(shape).astype(dtype)
    return out


def compare(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    net = tw.from_onnx(path, shapes)
    x = inputs_for(net)
    got = tw.compile(net, tw.Target("llvm -mcpu=native -num-cores=1")).run(x)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    want = session.run(None, x)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert relative_error(ours, theirs) < 1e-4


def test_there_are_files_of_every_kind() -> None:
    kinds = {p.stem.split("_opset")[0] for p in FILES}
    assert kinds == {
        "plain_cnn", "residual", "squeeze_excite", "separable", "dense_connected",
        "encoder_decoder", "transformer", "tensorflow_style", "mxnet_style",
    }  # fmt: skip
    assert sum(p.stat().st_size for p in FILES) < 700_000


@pytest.mark.parametrize("path", SYMBOLIC, ids=lambda p: p.stem)
def test_a_symbolic_batch(path: Path) -> None:
    compare(path, {"batch": (3,)})


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_files_name_no_machine(path: Path) -> None:
    model = onnx.load(path)
    assert not model.metadata_props and not any(n.metadata_props for n in model.graph.node)
    assert b"/home/" not in path.read_bytes() and b"site-packages" not in path.read_bytes()


def test_from_torch_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "onnxscript"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NetworkError, match=r"needs the package (torch|onnxscript)"):
        tw.from_torch(object(), ())
