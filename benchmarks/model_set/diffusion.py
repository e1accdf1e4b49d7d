"""The U-Net of a latent diffusion model, of the form of Stable Diffusion's."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_set.export import SEED, Feeds, Model, dynamo

_WIDTHS, _TEXT = (96, 192, 384), 256
_TIME = 4 * _WIDTHS[0]


class _Residual(nn.Module):
    """Two convolutions behind group norms; the time is added between them."""

    def __init__(self, ins: int, out: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, ins), nn.GroupNorm(32, out)
        self.conv1, self.conv2 = nn.Conv2d(ins, out, 3, 1, 1), nn.Conv2d(out, out, 3, 1, 1)
        self.time = nn.Linear(_TIME, out)
        self.skip = nn.Identity() if ins == out else nn.Conv2d(ins, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class _Attention(nn.Module):
    def __init__(self, width: int, context: int, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(context, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.q(x), self.k(context), self.v(context))
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


class _Transformer(nn.Module):
    """Attention among pixels, attention to the text, a gated dense layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.into, self.back = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.text = _Attention(width, width), _Attention(width, _TEXT)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        x = self.into(self.norm(image)).flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.own(y, y)
        x = x + self.text(self.norms[1](x), text)
        value, gate = self.up(self.norms[2](x)).chunk(2, -1)
        x = x + self.down(value * F.gelu(gate))
        return image + self.back(x.transpose(1, 2).reshape(image.shape))


class _Level(nn.Module):
    def __init__(self, ins: int, out: int) -> None:
        super().__init__()
        self.residual, self.transformer = _Residual(ins, out), _Transformer(out)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        return self.transformer(self.residual(x, time), text)


class _UNet(nn.Module):
    """Noise of latents at a time, given a text."""

    def __init__(self) -> None:
        super().__init__()
        first, last = _WIDTHS[0], _WIDTHS[-1]
        self.time = nn.Sequential(nn.Linear(first, _TIME), nn.SiLU(), nn.Linear(_TIME, _TIME))
        self.enter = nn.Conv2d(4, first, 3, 1, 1)
        before = (first, *_WIDTHS[:-1])
        self.down = nn.ModuleList(_Level(i, o) for i, o in zip(before, _WIDTHS, strict=True))
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in _WIDTHS[:-1])
        self.middle, self.after = _Level(last, last), _Residual(last, last)
        turned = tuple(reversed(_WIDTHS))
        above = (last, *turned[:-1])
        self.up = nn.ModuleList(_Level(a + w, w) for a, w in zip(above, turned, strict=True))
        self.grow = nn.ModuleList(nn.Conv2d(w, w, 3, 1, 1) for w in turned[:-1])
        self.norm, self.leave = nn.GroupNorm(32, first), nn.Conv2d(first, 4, 3, 1, 1)

    def forward(self, sample: Tensor, timestep: Tensor, text: Tensor) -> Tensor:
        half = _WIDTHS[0] // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = timestep[:, None].float() * rates
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        x, kept = self.enter(sample), []
        for i, level in enumerate(self.down):
            x = level(x, time, text)
            kept.append(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
        x = self.after(self.middle(x, time, text), time)
        for i, level in enumerate(self.up):
            x = level(torch.cat([x, kept.pop()], 1), time, text)
            if i < len(self.grow):
                x = self.grow[i](F.interpolate(x, scale_factor=2.0))
        return self.leave(F.silu(self.norm(x)))


def _inputs(batch: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    return {
        "sample": torch.randn(batch, 4, 32, 32, generator=generator),
        "timestep": torch.full((batch,), 500, dtype=torch.int64),
        "text": torch.randn(batch, 77, _TEXT, generator=generator),
    }


def _write(path: Path) -> Feeds:
    torch.manual_seed(SEED)
    dims = {name: {0: "batch"} for name in ("sample", "timestep", "text")}
    dynamo(path, _UNet(), _inputs(2), dims, ["noise"])
    return {name: x.numpy() for name, x in _inputs(1).items()}


MODELS = (
    Model("unet", "a diffusion U-Net, 3 levels of 96 to 384 (of 320 to 1280), 1x4x32x32", _write),
)
