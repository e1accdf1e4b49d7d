"""Tuning a network of which ONNX Runtime runs a part: ours is tuned, all of it is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import tilework as tw
from flows.cli import app
from flows.pipeline import tune_pipeline
from flows.reporting import Reporter, reporting
from tasks.stages import PLAIN
from tests.graph.cut_models import TWICE, model
from tilework.errors import NetworkError
from tilework.runtime.parts import PartedModule

UNTIMED = replace(PLAIN, compare=lambda compiled: None)


class Listener(Reporter):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def of(settings, tmp_path, text, **more):
    path = tmp_path / "net.onnx"
    onnx.save(model(text), path)
    return settings.model_copy(
        update={"network": str(path), "trials": 4, "output": str(tmp_path / "net.tw"), **more}
    )


def test_our_parts_are_tuned_and_the_whole_is_checked_and_kept(tiny, tmp_path):
    settings = of(tiny, tmp_path, TWICE, shapes=("N=3",))
    listener = Listener()
    with reporting(listener):
        report = tune_pipeline(settings, UNTIMED).report
    assert report.left in listener.notes and "ai.onnx.ml.Binarizer" in report.left
    assert report.progress.trials == 4 and report.check.passed
    module = tw.load_module(report.module)
    assert isinstance(module, PartedModule)
    assert any(row.tuned for row in module.report)
    assert module.run({"x": np.ones((3, 4), np.float32)})[0].shape == (3, 4)


def test_a_task_is_explained_beside_what_is_left(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model(TWICE), path)
    words = ["explain", f"{path}:0", "--shape", "N=3", "--store", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "left to ONNX Runtime" in done.stderr


def test_strict_refuses_and_so_does_what_has_nothing_to_tune(tiny, tmp_path):
    with pytest.raises(NetworkError, match=r"unsupported: ai\.onnx\.ml\.Binarizer"):
        tune_pipeline(of(tiny, tmp_path, TWICE, shapes=("N=3",), strict=True))
    lone = "g (float[3, 4] x) => (float[3, 4] y) { y = ai.onnx.ml.Binarizer(x) }"
    with pytest.raises(NetworkError, match=r"nothing to tune; left to ONNX Runtime") as e:
        tune_pipeline(of(tiny, tmp_path, lone))
    assert "\n" not in str(e.value)
