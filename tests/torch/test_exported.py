"""`from_torch` of exported programs."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tilework as tw  # noqa: E402
from tilework.errors import NetworkError  # noqa: E402


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.register_buffer("shift", torch.randn(4, 1, 1))

    def forward(self, image, scale):
        y = self.norm(self.conv(image)) * scale + self.shift
        return {"maps": y, "means": [y.mean((2, 3)), y.amax(1)], "again": y}


def test_a_program_is_a_network_with_the_same_results():
    model = Model().eval()
    x, scale = torch.randn(2, 3, 6, 6), torch.rand(1)
    net = tw.from_torch(torch.export.export(model, (x, scale)))
    assert {n: t.shape for n, t in net.inputs.items()} == {"image": (2, 3, 6, 6), "scale": (1,)}
    found = tw.compile(net, "llvm -num-cores=1").run({"image": x.numpy(), "scale": scale.numpy()})
    want = torch.utils._pytree.tree_leaves(model(x, scale))
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)


class Cached(nn.Module):
    def forward(self, past, x):
        keys = torch.cat([past, x], 1)
        return keys.softmax(1) @ x.transpose(1, 2), keys, past * 2


def test_a_cache_may_be_empty():
    past, x = torch.zeros(2, 0, 4), torch.randn(2, 3, 4)
    net = tw.from_torch(torch.export.export(Cached(), (past, x)))
    assert {n: t.shape for n, t in net.inputs.items()} == {"past": (2, 0, 4), "x": (2, 3, 4)}
    module = tw.compile(net, "llvm -num-cores=1")
    found = module.run({"past": past.numpy(), "x": x.numpy()})
    for a, b in zip(found, Cached()(past, x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


def test_inputs_can_be_named():
    net = tw.from_torch(
        torch.export.export(nn.Linear(3, 4).eval(), (torch.ones(1, 3),)), input_names=["data"]
    )
    assert list(net.inputs) == ["data"]


class Inverse(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x) + 1


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x * self.calls


class Handing(nn.Module):
    def forward(self, x):
        return x, x + 1


@pytest.mark.parametrize(
    ("model", "shapes", "said"),
    [
        (Inverse(), None, "aten.linalg_inv_ex"),
        (Counting(), None, "writes to calls"),
        (nn.Linear(4, 4), {"input": {0: torch.export.Dim("n", min=2, max=9)}}, "symbolic shape"),
        (Handing(), None, "is an input, a constant"),
    ],
)
def test_what_no_network_can_be_is_one_line(model, shapes, said):
    program = torch.export.export(model, (torch.eye(4),), dynamic_shapes=shapes)
    with pytest.raises(NetworkError, match=said) as caught:
        tw.from_torch(program)
    assert "\n" not in str(caught.value)
