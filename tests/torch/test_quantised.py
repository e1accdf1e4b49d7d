"""Quantised programs of PyTorch (pt2e): products of bytes, equal to the integer reference."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tilework as tw  # noqa: E402
from tests.torch.quantised_models import OPS, Encoder, Images, Integers  # noqa: E402
from tilework.errors import NetworkError  # noqa: E402
from tilework.graph.passes import optimize  # noqa: E402
from tilework.torch import Settings, backend  # noqa: E402

ONE = "llvm -num-cores=1"
INPUTS = {Images: (2, 3, 16, 16), Encoder: (2, 6, 16)}


def _exported(model, seed=1):
    """A model that has chosen its scales, its program, and an input."""
    x = torch.randn(INPUTS[type(model)], generator=torch.Generator().manual_seed(seed))
    model.eval()(x)
    return torch.export.export(model, (x,)), x


@pytest.mark.parametrize("form", ["u8", "s8 without the least"])
def test_every_quantised_tensor_is_that_of_the_integer_reference(form):
    program, x = _exported(Images(form, listed=True))
    want = Integers(program.module()).run(x)
    got = tw.compile(tw.from_torch(program), ONE).run(x.numpy())
    for y, reference in zip(got[:-1], want[:-1], strict=True):
        np.testing.assert_array_equal(y, reference.numpy())
    np.testing.assert_allclose(got[-1], want[-1].numpy(), rtol=1e-6, atol=1e-6)


def test_bytes_are_those_of_pytorch_but_for_ties():
    """PyTorch sums in float32 and leaves biases as they are; few elements are a step away."""
    program, x = _exported(Images("u8", listed=True))
    want = program.module()(x)
    got = tw.compile(tw.from_torch(program), ONE).run(x.numpy())
    for y, reference in zip(got[:-1], want[:-1], strict=True):
        apart = np.abs(y.astype(int) - reference.numpy())
        assert apart.max() <= 1
        assert (apart > 0).mean() < 0.01


class Rounding(torch.nn.Module):
    """Numbers as integers, of a whole tensor and by channel."""

    def __init__(self, scale, channels):
        super().__init__()
        self.scale, self.channels = scale, channels
        self.register_buffer("zeros", torch.arange(len(channels)) - 1)

    def forward(self, x):
        y = OPS.quantize_per_tensor(x, self.scale, 3, -100, 100, torch.int8)
        z = OPS.quantize_per_channel(x, self.channels, self.zeros, 1, -128, 127, torch.int8)
        w = OPS.quantize_per_tensor(x, self.scale, 700, 0, 65535, torch.uint16)
        back = OPS.dequantize_per_channel(z, self.channels, self.zeros, 1, -128, 127, torch.int8)
        return y, z, w, back


@pytest.mark.parametrize("scale", [0.3, float(np.float32(0.3)), 1 / 255, 0.25, 1e-3])
def test_numbers_in_the_middle_fall_where_pytorch_has_them(scale):
    """A quotient instead of its product with the reciprocal would fall elsewhere."""
    steps = torch.arange(-400, 400).reshape(200, 4) / 2
    x = torch.cat([(steps * scale).float(), (steps * np.float32(scale)).float()])
    model = Rounding(scale, torch.tensor([0.3, 0.1, 1 / 255, 0.7]))
    got = tw.compile(tw.from_torch(torch.export.export(model, (x,))), ONE).run(x.numpy())
    for y, want in zip(got, model(x), strict=True):
        np.testing.assert_array_equal(y, want.numpy())


@pytest.mark.parametrize(("network", "form"), [(Images, "u8"), (Encoder, "s8")])
def test_dynamic_programs_are_those_of_pytorch(network, form):
    """Within a step of the coarsest rounding, should a scale's last bit tip an element."""
    program, x = _exported(network(form, dynamic=True))
    net, want = tw.from_torch(program), program.module()(x)
    (got,) = tw.compile(net, ONE).run(x.numpy())
    np.testing.assert_allclose(got, want.numpy(), atol=0.02 * float(want.abs().max()))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("network", INPUTS)
def test_products_with_weights_are_products_of_bytes(network, dynamic):
    net = optimize(tw.from_torch(_exported(network("s8", dynamic=dynamic))[0]))
    products = [n for n in net.nodes if n.op in ("conv2d", "dense", "matmul")]
    assert len(products) == (4 if network is Images else 6)
    assert all(n.attrs["sums"] == "int32" for n in products)


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_computes_the_same(dynamic):
    program, x = _exported(Images("u8", dynamic=dynamic))
    module = program.module()
    (want,) = tw.compile(tw.from_torch(module, x), ONE).run(x.numpy())
    settings = Settings.of(None, {"target": ONE})
    run = torch.compile(module, backend=lambda gm, inputs: backend(gm, inputs, settings))
    with torch.no_grad():
        np.testing.assert_array_equal(run(x).numpy(), want)


def test_networks_are_written_with_the_same_meaning(tmp_path):
    """Ties of the input fall the same way; sums are not fused there."""
    program, x = _exported(Images("u8"))
    net = tw.from_torch(program)
    net.to_onnx(tmp_path / "net.onnx")
    x = torch.round(x / 0.05) * 0.05
    got, again = (
        tw.compile(n, ONE).run(x.numpy()) for n in (net, tw.from_onnx(tmp_path / "net.onnx"))
    )
    np.testing.assert_allclose(again, got, atol=0.02 * np.abs(got).max())


def test_scales_that_are_none_are_named():
    x = torch.ones(8, 4)
    for scale, said in ((0.0, "a scale is 0.0"), (float("nan"), "a scale is nan")):
        program = torch.export.export(Rounding(scale, torch.ones(4)), (x,))
        with pytest.raises(NetworkError, match=said):
            tw.from_torch(program)
    program = torch.export.export(Rounding(1.0, torch.tensor([1.0, -1, 1, 1])), (x,))
    with pytest.raises(NetworkError, match=r"a scale is -1\.0; scales are positive numbers"):
        tw.from_torch(program)


class Whole(torch.nn.Module):
    """A dense layer as torchao's `quantize_` leaves it: weights of int8, data of int8 by row."""

    def __init__(self, k: int, n: int, data: bool) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.register_buffer("w", torch.randint(-128, 128, (n, k), generator=g).to(torch.int8))
        self.register_buffer("scale", torch.rand(n, generator=g) / 100)
        self.data = data

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten._assert_tensor_metadata(x, None, None, torch.float32)
        if not self.data:
            return (x @ self.w.t().to(torch.float32)) * self.scale
        of_rows = x.abs().amax(1, keepdim=True) / 127
        y = (x * (1 / of_rows)).round().clamp(-128, 127).to(torch.int8)
        return torch._int_mm(y, self.w.t()).float() * of_rows * self.scale


@pytest.mark.parametrize(("data", "sizes"), [(True, (30, 40)), (False, (520, 512))])
def test_layers_of_torchao_are_products_of_bytes(data, sizes):
    model, x = Whole(*sizes, data), torch.randn(4, sizes[0])
    net = tw.from_torch(torch.export.export(model, (x,)))
    (product,) = [n for n in optimize(net).nodes if n.op in ("dense", "packed_dense", "matmul")]
    assert product.attrs["sums"] == ("int32" if data else "float32")
    (got,) = tw.compile(net, ONE).run(x.numpy())
    want = model(x).numpy()
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
