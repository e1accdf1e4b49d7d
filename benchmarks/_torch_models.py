"""The zoo's networks, a transformer encoder, a U-Net and a detector, written in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _convs(rank: int) -> tuple[type[nn.Module], type[nn.Module], type[nn.Module]]:
    """Convolution, batch norm and max pooling of a number of spatial axes."""
    if rank == 3:
        return nn.Conv3d, nn.BatchNorm3d, nn.MaxPool3d
    return nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d


class _Unit(nn.Module):
    """A residual unit that normalises and activates first."""

    def __init__(self, rank: int, ins: int, out: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        conv, norm, _ = _convs(rank)
        inner = out // 4
        body = ((inner, 1, stride), (inner, 3, 1), (out, 1, 1)) if bottleneck else (
            (out, 3, stride), (out, 3, 1)
        )  # fmt: skip
        self.first = norm(ins)
        layers: list[nn.Module] = []
        width = ins
        for i, (channels, kernel, step) in enumerate(body):
            if i:
                layers += [norm(width), nn.ReLU()]
            layers.append(conv(width, channels, kernel, step, kernel // 2, bias=False))
            width = channels
        self.body = nn.Sequential(*layers)
        same = stride == 1 and ins == out
        self.shortcut = None if same else conv(ins, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        act = torch.relu(self.first(x))
        return self.body(act) + (x if self.shortcut is None else self.shortcut(act))


class ResNet(nn.Module):
    """A pre-activation residual network over images, or over video."""

    def __init__(
        self, units: tuple[int, ...], filters: tuple[int, ...], bottleneck: bool, rank: int = 2
    ) -> None:
        super().__init__()
        conv, norm, pool = _convs(rank)
        if rank == 3:
            stem: list[nn.Module] = [
                norm(3), conv(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), norm(64),
                nn.ReLU(),
            ]  # fmt: skip
        else:
            stem = [norm(3), conv(3, 64, 7, 2, 3, bias=False), norm(64), nn.ReLU(), pool(3, 2, 1)]
        layers, width = stem, 64
        for stage, (count, out) in enumerate(zip(units, filters, strict=True)):
            for unit in range(count):
                stride = 2 if unit == 0 and stage else 1
                layers.append(_Unit(rank, width, out, stride, bottleneck))
                width = out
        self.features = nn.Sequential(*layers, norm(width), nn.ReLU())
        self.out = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x)
        return torch.softmax(self.out(y.mean(tuple(range(2, y.ndim)))), 1)


def _normal(
    ins: int,
    out: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    pad: int | None = None,
    groups: int = 1,
) -> nn.Sequential:
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    pads = tuple(k // 2 for k in taps) if pad is None else pad
    conv = nn.Conv2d(ins, out, taps, stride, pads, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU())


class MobileNet(nn.Module):
    """MobileNet 1.0."""

    BLOCKS = (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
        (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        layers, width = [_normal(3, 32, 3, 2)], 32
        for out, stride in self.BLOCKS:
            layers += [_normal(width, width, 3, stride, groups=width), _normal(width, out, 1)]
            width = out
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(self.features(x).mean((2, 3))), 1)


class _Fire(nn.Module):
    def __init__(self, ins: int, squeezed: int) -> None:
        super().__init__()
        self.input = nn.Conv2d(ins, squeezed, 1)
        self.left = nn.Conv2d(squeezed, 4 * squeezed, 1)
        self.right = nn.Conv2d(squeezed, 4 * squeezed, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.input(x))
        return torch.cat([torch.relu(self.left(x)), torch.relu(self.right(x))], 1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU()]
        width = 64
        for squeezed in (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64):
            layers.append(_Fire(width, squeezed) if squeezed else nn.MaxPool2d(3, 2))
            width = 8 * squeezed or width
        self.features = nn.Sequential(*layers, nn.Conv2d(width, 1000, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.features(x).mean((2, 3)), 1)


class _Branches(nn.Module):
    """Branches of one input, whose outputs are concatenated."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _tower(
    ins: int, *steps: tuple[int, int | tuple[int, int]] | tuple[int, int, int, int]
) -> nn.Sequential:
    layers = []
    for out, kernel, *rest in steps:
        layers.append(_normal(ins, out, kernel, *rest))
        ins = out
    return nn.Sequential(*layers)


class InceptionV3(nn.Module):
    """Inception v3."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            _normal(3, 32, 3, 2, 0), _normal(32, 32, 3, 1, 0), _normal(32, 64, 3),
            nn.MaxPool2d(3, 2), _normal(64, 80, 1), _normal(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2),
        ]  # fmt: skip
        width = 192
        for projected in (32, 64, 64):
            layers.append(
                _Branches(
                    _tower(width, (64, 1)),
                    _tower(width, (48, 1), (64, 5)),
                    _tower(width, (64, 1), (96, 3), (96, 3)),
                    nn.Sequential(nn.AvgPool2d(3, 1, 1), _normal(width, projected, 1)),
                )
            )
            width = 224 + projected
        layers.append(
            _Branches(
                _tower(width, (384, 3, 2, 0)),
                _tower(width, (64, 1), (96, 3), (96, 3, 2, 0)),
                nn.MaxPool2d(3, 2),
            )
        )
        width = 768
        for n in (128, 160, 160, 192):
            layers.append(
                _Branches(
                    _tower(width, (192, 1)),
                    _tower(width, (n, 1), (n, (1, 7)), (192, (7, 1))),
                    _tower(width, (n, 1), (n, (7, 1)), (n, (1, 7)), (n, (7, 1)), (192, (1, 7))),
                    nn.Sequential(nn.AvgPool2d(3, 1, 1), _normal(width, 192, 1)),
                )
            )
        layers.append(
            _Branches(
                _tower(width, (192, 1), (320, 3, 2, 0)),
                _tower(width, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, 0)),
                nn.MaxPool2d(3, 2),
            )
        )
        width = 1280
        for pool in (nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1)):
            layers.append(
                _Branches(
                    _tower(width, (320, 1)),
                    nn.Sequential(_normal(width, 384, 1), _both(384)),
                    nn.Sequential(_normal(width, 448, 1), _normal(448, 384, 3), _both(384)),
                    nn.Sequential(pool, _normal(width, 192, 1)),
                )
            )
            width = 2048
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(self.features(x).mean((2, 3))), 1)


def _both(channels: int) -> _Branches:
    return _Branches(_normal(channels, channels, (1, 3)), _normal(channels, channels, (3, 1)))


class MLP(nn.Module):
    """Three dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layers(x.flatten(1)), 1)


class _EncoderLayer(nn.Module):
    """Self-attention and two dense layers, each behind a norm of its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.mix(y)
        return x + self.outer(F.gelu(self.inner(self.norm2(x))))


class Encoder(nn.Module):
    """A transformer encoder over tokens."""

    def __init__(self, layers: int = 4, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(1000, width), nn.Embedding(512, width)
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.norm(self.layers(self.tokens(tokens) + self.places(places)))


class ImageEncoder(nn.Module):
    """A transformer encoder over a class token and patches of an image of 224 x 224."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.patches(image).flatten(2).transpose(1, 2)
        return self.norm(self.layers(torch.cat([self.first, tokens], 1) + self.places))


class UNet(nn.Module):
    """Three levels down and up again, by transposed convolutions, with group norms."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        sizes = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList(
            [self._pair(i, o) for i, o in zip((3, *sizes), sizes, strict=False)]
        )
        self.middle = self._pair(sizes[-1], 2 * sizes[-1])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * s, s, 2, 2) for s in reversed(sizes)])
        self.up = nn.ModuleList([self._pair(2 * s, s) for s in reversed(sizes)])
        self.out = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _pair(ins: int, out: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for i in (ins, out):
            layers += [nn.Conv2d(i, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for grow, up, skip in zip(self.grow, self.up, reversed(kept), strict=True):
            x = up(torch.cat([grow(x), skip], 1))
        return self.out(x)


class Detector(nn.Module):
    """A small detector of one stage: a backbone, a neck that adds levels, boxes and classes."""

    def __init__(self, classes: int = 20, anchors: int = 3) -> None:
        super().__init__()
        self.outputs = classes + 5
        self.backbone = nn.ModuleList(
            [nn.Sequential(*(self._block(a, b, 2), self._block(b, b, 1)))
             for a, b in ((3, 16), (16, 32), (32, 64), (64, 128), (128, 256))]
        )  # fmt: skip
        self.side = nn.ModuleList([nn.Conv2d(c, 64, 1) for c in (64, 128, 256)])
        self.heads = nn.ModuleList([nn.Conv2d(64, anchors * self.outputs, 3, padding=1)] * 3)

    @staticmethod
    def _block(ins: int, out: int, stride: int) -> nn.Sequential:
        conv = nn.Conv2d(ins, out, 3, stride, 1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(out), nn.Hardswish())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        levels = []
        for stage in self.backbone:
            x = stage(x)
            levels.append(x)
        found, above = [], None
        for level, side, head in reversed(
            list(zip(levels[2:], self.side, self.heads, strict=True))
        ):
            y = side(level)
            if above is not None:
                y = y + F.interpolate(above, scale_factor=2)
            above = y
            p = head(y).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.outputs)
            rows, columns = torch.meshgrid(
                torch.arange(y.shape[2]), torch.arange(y.shape[3]), indexing="ij"
            )
            grid = torch.stack([columns, rows], -1).view(1, -1, 1, 2).expand(-1, -1, 3, -1)
            centre = (p[..., :2].sigmoid() + grid.reshape(1, -1, 2)) / y.shape[2]
            size = p[..., 2:4].clamp(max=4.0).exp() / y.shape[2]
            boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
            found.append((boxes, p[..., 4:5].sigmoid() * p[..., 5:].softmax(-1)))
        boxes, scores = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        best, which = scores.amax(-1).topk(20, 1)
        return boxes.gather(1, which[..., None].expand(-1, -1, 4)), best


_BASIC, _DEEP = (64, 128, 256, 512), (256, 512, 1024, 2048)
_IMAGE = (3, 224, 224)

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet-18": (lambda: ResNet((2, 2, 2, 2), _BASIC, False), _IMAGE),
    "resnet-50": (lambda: ResNet((3, 4, 6, 3), _DEEP, True), _IMAGE),
    "resnet3d-18": (lambda: ResNet((2, 2, 2, 2), _BASIC, False, rank=3), (3, 16, 112, 112)),
    "mobilenet": (MobileNet, _IMAGE),
    "squeezenet_v1.1": (SqueezeNet, _IMAGE),
    "inception_v3": (InceptionV3, (3, 299, 299)),
    "mlp": (MLP, (28, 28)),
    "encoder": (Encoder, (128,)),
    "unet": (UNet, (3, 128, 128)),
    "detector": (Detector, (3, 256, 256)),
}
"""By name: the model, and the extents of one input."""


def model(name: str) -> nn.Module:
    """A model in evaluation mode, its random weights and statistics always the same."""
    torch.manual_seed(0)
    made = MODELS[name][0]()
    for layer in made.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.BatchNorm3d)):
            nn.init.uniform_(layer.running_var, 0.7, 1.4)
            nn.init.normal_(layer.running_mean, 0.0, 0.1)
    return made.eval()


def example(name: str, batch: int = 1) -> Tensor:
    """A random input."""
    shape = (batch, *MODELS[name][1])
    generator = torch.Generator().manual_seed(1)
    if name == "encoder":
        return torch.randint(0, 1000, shape, generator=generator)
    return torch.randn(shape, generator=generator)
