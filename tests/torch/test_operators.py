"""Every converter of core operators, beside PyTorch's own result: a family is one graph."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from tilework.torch import Settings, backend  # noqa: E402
from tilework.torch.notes import _SAID  # noqa: E402


def _x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _i(*shape, low=0, high=5, dtype=torch.int64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator, dtype=dtype)


X = _x(2, 3, 8, 8)
W = _x(6, 3, 3, 3, seed=1)
M = _x(4, 6)
P = M.abs() + 0.5
I = _i(4, 6, low=-7, high=7)  # noqa: E741
B = M > 0


def _grouped(x, heads, mask, **more):
    """Attention of 6 heads of queries over fewer ones of keys."""
    q, k = x.reshape(2, 6, 4, 8), x.reshape(2, 3, 8, 8)[:, :heads, :7]
    return F.scaled_dot_product_attention(q, k, k * 2, attn_mask=mask, enable_gqa=True, **more)


FAMILIES = {
    "floats": [
        (f, P / 4)
        for f in (
            torch.exp, torch.log, torch.sqrt, torch.rsqrt, torch.tanh, torch.sigmoid, torch.erf,
            torch.sin, torch.cos, torch.tan, torch.asin, torch.acos, torch.atan, torch.sinh,
            torch.cosh, torch.asinh, torch.atanh, torch.reciprocal, torch.log2, torch.log10,
            torch.floor, torch.ceil, torch.round, torch.trunc, torch.abs, torch.neg, torch.sign,
            torch.expm1, torch.log1p, torch.isnan, torch.isinf, torch.isfinite, torch.square,
            lambda x: torch.acosh(x + 1), lambda x: torch.clamp(x, 0.2, 0.4),
            lambda x: torch.clamp(x, min=0.2), lambda x: x.clamp(max=0.3),
            lambda x: x ** 2 + x ** 3 + x ** 0.5 + x ** -0.5 + x ** -1 + 2 ** x + x ** x,
            lambda x: torch.where(x > 0.3, x, 0.0), lambda x: x.masked_fill(x > 0.3, -2.0),
            lambda x: torch.full_like(x, 3.5) + torch.zeros_like(x) + torch.ones_like(x),
        )
    ],
    "integers": [
        (f, I)
        for f in (
            lambda x: x + 3, lambda x: x - 2 * x, lambda x: 3 - x, lambda x: x * x, torch.abs,
            torch.neg, torch.sign, lambda x: x / 3, lambda x: x // 3, lambda x: x % 3,
            lambda x: torch.div(x, 3, rounding_mode="trunc"), lambda x: torch.fmod(x, 3),
            lambda x: x & 5, lambda x: x | 3, lambda x: x ^ 9, lambda x: ~x, lambda x: x > 2,
            lambda x: x.float() * 0.5, lambda x: x.to(torch.int32), lambda x: x.to(torch.uint8),
            lambda x: x + 0.5, lambda x: torch.exp(x * 0.1), lambda x: x.bool(), lambda x: x ** 2,
            lambda x: x.clamp(-2, 3), lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.amax(1),
            lambda x: x.to(torch.int32).sum(0), lambda x: torch.maximum(x, x.flip(0)),
            lambda x: x.to(torch.int8) + torch.ones(6, dtype=torch.int32),
        )
    ],
    "truth": [
        (f, B)
        for f in (
            lambda b: b & b.flip(0), lambda b: b | b.flip(1), lambda b: b ^ b.flip(0),
            torch.logical_not, lambda b: ~b, lambda b: b.any(), lambda b: b.all(1),
            lambda b: b.any(0, keepdim=True), lambda b: b.sum(1), lambda b: b + 1.5,
            lambda b: b * 2, lambda b: b.float(), lambda b: b == b.flip(0),
        )
    ],
    "activations": [
        (f, 4 * X)
        for f in (
            F.relu, F.relu6, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.mish,
            F.hardswish, F.hardsigmoid, F.hardtanh, F.leaky_relu, F.elu, F.selu, F.celu,
            F.softplus, lambda x: F.softplus(x, beta=2), F.softsign, F.logsigmoid, F.softmin,
            lambda x: F.softplus(x, threshold=1), lambda x: F.elu(x, alpha=0.5),
            lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3])), F.tanhshrink, F.hardshrink,
            F.softshrink, lambda x: F.threshold(x, 0.5, 0.1), lambda x: F.glu(x, -1),
        )
    ],
    "windows": [
        (f, X)
        for f in (
            lambda x: F.conv2d(x, W, W[:, 0, 0, 0], padding=1),
            lambda x: F.conv2d(x, W, stride=2, dilation=2),
            lambda x: F.conv2d(x, W[:, :1], groups=3),
            lambda x: F.conv2d(x, W, padding="same"),
            lambda x: F.conv1d(x[:, :, 0], W[:, :, 0]),
            lambda x: F.conv3d(x[:, :, None], W[:, :, None]),
            lambda x: F.conv2d(x[0], W),
            lambda x: F.conv_transpose2d(x, W.transpose(0, 1), stride=2, output_padding=1),
            lambda x: F.conv_transpose1d(x[:, :, 0], W[:3, :, 0]),
            lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
            lambda x: F.max_pool1d(x[:, :, 0], 2), lambda x: F.max_pool3d(x[:, None], 2),
            lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.avg_pool1d(x[:, :, 0], 2), lambda x: F.avg_pool3d(x[:, None], 2),
            lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
            lambda x: F.adaptive_max_pool2d(x, (3, 5)), lambda x: F.adaptive_avg_pool1d(x[0], 4),
        )
    ],
    "products": [
        (f, M)
        for f in (
            lambda m: m @ m.T, lambda m: F.linear(m, m, m[:, 0]), lambda m: m @ m[0],
            lambda m: m[0] @ m[1], lambda m: torch.addmm(m, m @ m.T, m, beta=0.5, alpha=2),
            lambda m: torch.bmm(m.view(2, 2, 6), m.view(2, 6, 2)),
            lambda m: torch.baddbmm(m.view(2, 2, 6), m.view(2, 2, 6), m.T.reshape(2, 3, 4)
                                    .reshape(2, 6, 2) @ m.view(2, 2, 6)),
            lambda m: torch.einsum("ij,kj->ik", m, m), lambda m: torch.outer(m[0], m[:, 0]),
            lambda m: m.view(1, 2, 2, 6) @ m.view(1, 2, 6, 2),
            lambda m: F.linear(m.view(2, 2, 6), M),
            lambda m: F.scaled_dot_product_attention(*(m.view(1, 2, 2, 6),) * 3),
            lambda m: F.scaled_dot_product_attention(*(m.view(1, 2, 2, 6),) * 3, is_causal=True),
            lambda m: F.scaled_dot_product_attention(
                *(m.view(1, 2, 2, 6),) * 3, attn_mask=torch.tensor([[True, False], [True, True]])
            ),
            lambda m: F.scaled_dot_product_attention(
                *(m.view(1, 2, 2, 6),) * 3, attn_mask=m[:2, :2], scale=0.3
            ),
            # a position that sees nothing, as padding on the left: zeros
            lambda m: F.scaled_dot_product_attention(
                *(m.view(1, 2, 2, 6),) * 3, attn_mask=torch.tensor([[False, False], [True, True]])
            ),
            lambda m: F.scaled_dot_product_attention(
                *(m.view(1, 2, 2, 6),) * 3, attn_mask=torch.tensor([[-torch.inf] * 2, [0.0, 1.0]])
            ),
            lambda m: F.scaled_dot_product_attention(
                *(m.view(1, 2, 2, 6),) * 3, attn_mask=(m > 9)[:2, :2] | (m[:, :2].T[:, :2] > 0)
            ),
            lambda m: (m.view(1, 2, 2, 6) @ m.view(1, 2, 2, 6).transpose(-1, -2)).softmax(-1),
        )
    ],
    "shared keys": [
        (lambda x, heads=heads, mask=mask, more=more: _grouped(x, heads, mask(x), **more), X)
        for heads, mask, more in (
            (1, lambda x: None, {}),
            (2, lambda x: None, {"is_causal": True}),
            (2, lambda x: x[0, :1, :4, :7], {"scale": 0.3}),
            (3, lambda x: x[:, :1, :4, :7] > -1, {}),
            (2, lambda x: x.reshape(2, 6, 4, 8)[..., :7] > -2, {"scale": 2.0}),
        )
    ],
    "empty": [
        (f, X)
        for f in (
            lambda x: torch.cat([x[:, :0], x], 1) * 2, lambda x: x[:, :0] + 1,
            lambda x: x[:, 3:].sum(1), lambda x: x[:, :, :0].mean(2), lambda x: x[:, :0].prod(1),
            lambda x: x[..., :0] @ x[..., :0].transpose(-1, -2), lambda x: x[:0].reshape(0, 24, 8),
            lambda x: F.linear(x[..., :0], torch.ones(5, 0), torch.arange(5.0)),
            lambda x: x[:, :0].softmax(1), lambda x: F.conv2d(x[:0], torch.ones(2, 3, 3, 3)),
            lambda x: F.pad(x[..., :0], (1, 2)), lambda x: x.split([0, 3], 1)[0] * 1,
            lambda x: torch.where(x[:, :0] > 0, x[:, :0], 1.0), lambda x: x[:, :0].transpose(0, 3),
            lambda x: x[:0].expand(0, 3, 8, 8) + x[:1], lambda x: F.layer_norm(x[:, :0], (8,)),
            lambda x: torch.stack([x[:0], x[:0]]),
            lambda x: torch.cat([x[:0], x[:0]], 1), lambda x: x.repeat(1, 0, 1, 1),
            lambda x: x[:, torch.empty(0, dtype=torch.int64)] + 1, lambda x: (x[:, :0] > 0).any(1),
            lambda x: (x[:, :0] > 0).all(1), lambda x: x[:, :0].to(torch.int32).sum(1),
        )
    ],
    "norms": [
        (f, X)
        for f in (
            lambda x: F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 0].abs(), x[0, :, 0, 1]),
            lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), torch.ones(3), torch.ones(3)),
            lambda x: F.layer_norm(x, (8,)), lambda x: F.layer_norm(x, (8, 8), x[0, 0], x[0, 1]),
            lambda x: F.group_norm(x, 3), lambda x: F.group_norm(x, 1, torch.ones(3) * 2),
            F.instance_norm, lambda x: F.instance_norm(x[:1], weight=torch.ones(3)),
            lambda x: F.softmax(x, 1), lambda x: F.log_softmax(x, -1), lambda x: x.softmax(0),
            lambda x: F.normalize(x, dim=1), lambda x: F.rms_norm(x, (8,)),
            lambda x: F.local_response_norm(x, 2),
        )
    ],
    "reductions": [
        (f, X)
        for f in (
            torch.sum, torch.mean, torch.amax, torch.amin, lambda x: x.sum(1),
            lambda x: x.sum((2, 3)), lambda x: x.mean((2, 3)), lambda x: x.mean((2, 3), True),
            lambda x: x.mean(1), lambda x: x.amax((1, 2)), lambda x: x.max(1).values,
            lambda x: x.max(2), lambda x: x.min(-1, keepdim=True), torch.max, torch.min,
            lambda x: x.argmax(1), lambda x: x.argmin(-1, keepdim=True), torch.argmax,
            lambda x: x.prod(3), lambda x: x.var(1), lambda x: x.std((2, 3)), torch.var,
            lambda x: torch.var_mean(x, 1), lambda x: x.logsumexp(1), lambda x: x.norm(),
            lambda x: x.norm(dim=1), lambda x: x.norm(p=1, dim=2), lambda x: x.cumsum(1),
            lambda x: x.topk(3, -1), lambda x: x.topk(2, 1, largest=False).values,
            lambda x: x.cumprod(-1), lambda x: (x.abs() > 1).all(1), lambda x: (x > 2).any(),
        )
    ],
    "views": [
        (f, X)
        for f in (
            lambda x: x.reshape(6, -1) * 1, lambda x: x.permute(0, 2, 3, 1) + 1,
            lambda x: x.transpose(1, 2) * 2, lambda x: x.flatten(1) + 1, lambda x: x[:, 1] + 1,
            lambda x: x[:, :, 1:-1:2, ::3] + 1, lambda x: x[..., None, :1].squeeze(-1) + 1,
            lambda x: x.flip(1, 2) + 0, lambda x: torch.cat([x, x[:, :1]], 1), lambda x: x.T + 1,
            lambda x: torch.stack([x, x], -1) + 0, lambda x: x.repeat(1, 2, 1, 3),
            lambda x: x.split(2, 1)[1] + 1, lambda x: x.chunk(3, 2)[2] + 1, lambda x: x.roll(2, 3),
            lambda x: x.unbind(1)[1] + 1, lambda x: F.pad(x, (1, 2, 0, 3), value=2.0),
            lambda x: F.pad(x, (-1, 2)), lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect"),
            lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"), lambda x: x.tril(1) + x.triu(),
            lambda x: F.pixel_shuffle(x[:, :1].repeat(1, 4, 1, 1), 2),
            lambda x: F.pixel_unshuffle(x, 2), lambda x: x[:, :1].expand(2, 5, 8, 8) + 0,
            lambda x: F.channel_shuffle(x.repeat(1, 2, 1, 1), 3),
            lambda x: x.unfold(2, 3, 2) + 0,
            lambda x: x.tile(2) + 0, lambda x: x.repeat_interleave(2, 1),
            lambda x: x.movedim(1, 3) + 0,
        )
    ],
    "indices": [
        (f, X)
        for f in (
            lambda x: x[:, [2, 0]], lambda x: x[:, torch.tensor([0, 0, 1])],
            lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, size=(5, 11)),
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
            lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
            lambda x: x.gather(1, torch.zeros(2, 1, 8, 8, dtype=torch.int64)),
            lambda x: x.index_select(2, torch.tensor([3, 1])),
            lambda x: x[:, torch.tensor([0, 1]), torch.tensor([2, -3])],
            lambda x: F.embedding(torch.tensor([[1, 0], [0, 0]]), x[0, 0]),
            lambda x: F.embedding((x[0, 0] > 0).long(), x[0, 0]),
            lambda x: x[0][(x[0, :, 0, 0] > 0).long(), (x[0, :, 1, 1] > 0).long() - 2],
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_pytorch_and_nothing_stays(family):
    cases = FAMILIES[family]
    x = cases[0][1]

    def model(x):
        return [f(x) for f, _ in cases]

    _SAID.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = model(x)
        found = torch.compile(model, backend=_one_thread)(x)
    assert not _SAID
    for n, (a, b) in enumerate(zip(wanted, found, strict=True)):
        pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
        for p, q in pairs:
            assert (p.shape, p.dtype, p.stride()) == (q.shape, q.dtype, q.stride()), n
            torch.testing.assert_close(
                q, p, rtol=2e-5, atol=2e-6, equal_nan=True, msg=lambda m, n=n: f"{n}: {m}"
            )


def _one_thread(gm, inputs):
    return backend(gm, inputs, Settings(target="llvm -mcpu=native -num-cores=1"))
