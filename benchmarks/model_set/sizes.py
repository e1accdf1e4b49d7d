"""Networks whose images have any size, or recordings any length: small ones of today's blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model_set.export import SEED, Feeds, Model, dynamo, trained


def _block(ci: int, co: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(ci, co, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(co), nn.SiLU())


class _Residual(nn.Module):
    def __init__(self, ci: int, co: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(ci, co, 3, stride), nn.Conv2d(co, co, 3, 1, 1))
        self.skip = nn.Conv2d(ci, co, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class _Classifier(nn.Module):
    """A ResNet behind layers of groups and squeezed channels, as MobileNetV3 has them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_block(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.expand = nn.Sequential(_block(32, 96, 1), _block(96, 96, 5, 1, 96))
        self.gate = nn.Sequential(nn.Conv2d(96, 24, 1), nn.ReLU(), nn.Conv2d(24, 96, 1))
        self.stages = nn.Sequential(_Residual(96, 64, 1), _Residual(64, 128, 2))
        self.head = nn.Linear(128, 100)

    def forward(self, image: Tensor) -> Tensor:
        x = self.expand(self.stem(image))
        x = x * F.hardsigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        return self.head(self.stages(x).mean((2, 3)))


class _Segmenter(nn.Module):
    """A U-Net of three levels with both usual ways of making an image larger."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_block(3, 16), _block(16, 32, 3, 2), _block(32, 64, 3, 2)])
        self.up = nn.ModuleList([_block(96, 32), _block(48, 16)])
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, image: Tensor) -> Tensor:
        a = self.down[0](image)
        b = self.down[1](a)
        c = self.down[2](b)
        b = self.up[0](torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        wide = F.interpolate(b, scale_factor=2.0, mode="bilinear")
        return self.head(self.up[1](torch.cat([wide, a], 1)))


class _Detector(nn.Module):
    """Boxes and classes at two scales over a grid of places, as YOLO's heads give them."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(_block(3, 16, 3, 2), _block(16, 32, 3, 2))
        self.coarse = _block(32, 64, 3, 2)
        self.pyramid = nn.Conv2d(256, 64, 1)
        self.heads = nn.ModuleList([nn.Conv2d(96, 10, 1), nn.Conv2d(64, 10, 1)])

    def forward(self, image: Tensor) -> Tensor:
        fine = self.fine(image)
        pools = [self.coarse(fine)]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        coarse = self.pyramid(torch.cat(pools, 1))
        both = torch.cat([F.interpolate(coarse, scale_factor=2.0), fine], 1)
        return torch.cat([self._boxes(0, both, 4), self._boxes(1, coarse, 8)], 2).transpose(1, 2)

    def _boxes(self, which: int, x: Tensor, stride: int) -> Tensor:
        y = self.heads[which](x)
        rows, columns = (torch.arange(n) + 0.5 for n in y.shape[2:])
        down, across = torch.meshgrid(rows, columns, indexing="ij")
        places = torch.stack([across, down]).reshape(1, 2, -1)
        centre, size, classes = y.flatten(2).sigmoid().split([2, 2, 6], 1)
        return torch.cat([(2 * centre - 0.5 + places) * stride, 4 * size**2 * stride, classes], 1)


class _Painter(nn.Module):
    """Style transfer: strides down, transposed up, norms of each image."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True))
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.GroupNorm(2, 8))
        self.out = nn.Conv2d(8, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, image: Tensor) -> Tensor:
        return self.out(F.relu(self.up(F.relu(self.down(image)))))


class _Enlarger(nn.Module):
    """Twice the resolution, by a shuffle of channels beside a cubic resize."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 5, 1, 2), nn.LeakyReLU(0.1))
        self.out = nn.Conv2d(32, 12, 3, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = F.pixel_shuffle(self.out(self.body(image)), 2)
        return fine + F.interpolate(image, scale_factor=2.0, mode="bicubic")


class _ConvNext(nn.Module):
    """Patches, a 7x7 of each channel, norms of the last dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 4, 4)
        self.mix = nn.Conv2d(48, 48, 7, 1, 3, groups=48)
        self.norm = nn.LayerNorm(48)
        self.wide, self.narrow = nn.Linear(48, 192), nn.Linear(192, 48)
        self.head = nn.Linear(48, 20)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image)
        y = self.norm(self.mix(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return self.head((x + y).mean((2, 3)))


class _Conformer(nn.Module):
    """Frames made fewer by convolutions, attention and a convolution over time, CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU()
        )
        self.project = nn.Linear(320, 96)
        self.norm, self.attention = (
            nn.LayerNorm(96),
            nn.MultiheadAttention(96, 4, batch_first=True),
        )
        self.over_time = nn.Conv1d(96, 96, 15, 1, 7, groups=96)
        self.head = nn.Linear(96, 32)

    def forward(self, features: Tensor) -> Tensor:
        x = self.project(self.front(features[:, None]).transpose(1, 2).flatten(2))
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + F.silu(self.over_time(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x).log_softmax(-1)


def _images(step: int) -> dict[int, Any]:
    """Dimensions of images whose sides are multiples of a number."""
    if step == 1:
        return {0: "batch", 2: "height", 3: "width"}
    rows, columns = (torch.export.Dim(name, min=2, max=256) for name in ("rows", "columns"))
    return {0: torch.export.Dim("batch", min=1, max=8), 2: step * rows, 3: step * columns}


def _write(path: Path, kind: type[nn.Module], name: str, shape: list[int], dims: Any) -> Feeds:
    torch.manual_seed(SEED)
    net = trained(kind(), torch.randn(4, *shape))
    x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(SEED))
    dynamo(path, net, {name: x.repeat(2, *(1 for _ in shape))}, {name: dims}, ["y"])
    return {name: x.numpy()}


def _sized(name: str, words: str, kind: type[nn.Module], step: int = 1) -> Model:
    shape = [3, 96, 64]
    return Model(
        f"{name}_sizes", f"{words}, 1x3x96x64",
        lambda path: _write(path, kind, "image", shape, _images(step)),
    )  # fmt: skip


MODELS = (
    _sized("classifier", "a ResNet with layers of MobileNetV3", _Classifier),
    _sized("segmenter", "a U-Net of three levels", _Segmenter, 4),
    _sized("detector", "a YOLO of two scales", _Detector, 8),
    _sized("painter", "style transfer", _Painter, 2),
    _sized("enlarger", "twice the resolution", _Enlarger),
    _sized("convnext", "a block of ConvNeXt", _ConvNext, 4),
    Model(
        "conformer_lengths", "a block of a Conformer with a CTC head, 200 frames",
        lambda path: _write(
            path, _Conformer, "features", [200, 80], {0: "batch", 1: "frames"}
        ),
    ),
)  # fmt: skip
