"""Modules exported from PyTorch, where it is installed.

Among the pipeline's tests because the exporter imports pandas where it finds it.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tilework.errors import NetworkError

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


def test_from_torch() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 5),
    )
    assert module.training
    x = torch.randn(2, 3, 16, 16)
    net = tw.from_torch(module, x, input_names=["image"])
    assert module.training and net.inputs["image"].shape == (2, 3, 16, 16)
    (got,) = tw.compile(net, tw.Target("llvm -mcpu=native -num-cores=1")).run(x.numpy())
    with torch.no_grad():
        want = module.eval()(x).numpy()
    assert np.abs(got - want).max() < 1e-4 * np.abs(want).max()
    with pytest.raises(NetworkError, match=r"torch.nn.Module"):
        tw.from_torch(lambda x: x, x)


def test_a_module_that_cannot_be_exported() -> None:
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(NetworkError, match="PyTorch cannot export Branching") as e:
        tw.from_torch(Branching(), torch.ones(2))
    assert "\n" not in str(e.value) and "\x1b" not in str(e.value)
