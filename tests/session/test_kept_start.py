"""A start whose kernels and choices are kept: what it does without."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import onnx

import tilework as tw
from tilework.graph.onnx import to_model

UNNEEDED = (
    "tilework.compiler.families", "tilework.compiler.transfer", "tilework.graph.zoo",
    "tilework.kinds.cpu.features", "tilework.kinds.cpu.lowering", "tilework.kinds.cpu.roofline",
    "tilework.kinds.cpu.space", "tilework.lower.register_tiles", "tilework.measure.measurer",
    "tilework.model.drafted", "tilework.model.xgb", "tilework.search", "tilework.space.space",
    "tilework.travel", "storage.packages.history", "multiprocessing", "onnx.reference",
)  # fmt: skip

_START = """
    import sys
    import numpy as np
    from tilework.session import Session, later

    answered, loaded, later._PATIENCE_S = later.answered, [], 60.0
    later.answered = lambda: loaded.extend(sys.modules) or answered()
    session = Session("net.onnx", cache="cache")
    (x,) = session.get_inputs()
    (y,) = session.run(None, {x.name: np.ones(x.shape, np.float32)})
    print(float(y.sum()))
    print(*loaded)
"""


def test_it_imports_what_it_needs_alone(tmp_path: Path) -> None:
    net = tw.zoo.get("mobilenet", batch=1, layout="NCHW", image_shape=(32, 32, 3))
    onnx.save(to_model(net), tmp_path / "net.onnx")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = []
    for _ in range(2):
        for form in (tmp_path / "cache").glob("*.*"):
            form.unlink()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_START)],
            capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
    (first, made), (second, kept) = told
    assert first == second
    assert "tilework.kinds.cpu.lowering" in made.split()
    assert not [name for name in UNNEEDED if name in kept.split()]
