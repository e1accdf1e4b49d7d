"""A detector of one stage, of the form of YOLOv8, with what picks its boxes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_set.export import SEED, Feeds, Model, dynamo, trained

_BINS, _CLASSES, _SIZE = 16, 80, 320


def _conv(ins: int, out: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    taps = nn.Conv2d(ins, out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(taps, nn.BatchNorm2d(out), nn.SiLU())


class _Split(nn.Module):
    """Half of the channels goes through units; all that they give is joined (C2f)."""

    def __init__(self, ins: int, out: int, units: int, shortcut: bool) -> None:
        super().__init__()
        half = out // 2
        self.first, self.last = _conv(ins, out), _conv((2 + units) * half, out)
        self.units = nn.ModuleList(
            nn.Sequential(_conv(half, half, 3), _conv(half, half, 3)) for _ in range(units)
        )
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for unit in self.units:
            y = unit(parts[-1])
            parts.append(parts[-1] + y if self.shortcut else y)
        return self.last(torch.cat(parts, 1))


class _Pooled(nn.Module):
    """Maxima over larger and larger windows, joined (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = _conv(width, width // 2), _conv(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class _Detector(nn.Module):
    """YOLOv8n's layers: boxes [N, places, 4] as corners in pixels, scores [N, classes, places]."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Sequential(
            _conv(3, 16, 3, 2), _conv(16, 32, 3, 2), _Split(32, 32, 1, True),
            _conv(32, 64, 3, 2), _Split(64, 64, 2, True),
        )  # fmt: skip
        self.medium = nn.Sequential(_conv(64, 128, 3, 2), _Split(128, 128, 2, True))
        self.large = nn.Sequential(_conv(128, 256, 3, 2), _Split(256, 256, 1, True), _Pooled(256))
        self.up = nn.ModuleList([_Split(384, 128, 1, False), _Split(192, 64, 1, False)])
        self.down = nn.ModuleList([_conv(64, 64, 3, 2), _conv(128, 128, 3, 2)])
        self.joined = nn.ModuleList([_Split(192, 128, 1, False), _Split(384, 256, 1, False)])
        widths = (64, 128, 256)
        self.boxes = nn.ModuleList(self._head(w, 64, 4 * _BINS) for w in widths)
        self.scores = nn.ModuleList(self._head(w, 80, _CLASSES) for w in widths)

    @staticmethod
    def _head(ins: int, inner: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            _conv(ins, inner, 3), _conv(inner, inner, 3), nn.Conv2d(inner, out, 1)
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        a = self.small(images)
        b = self.medium(a)
        c = self.large(b)
        b = self.up[0](torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.up[1](torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        b = self.joined[0](torch.cat([self.down[0](a), b], 1))
        c = self.joined[1](torch.cat([self.down[1](b), c], 1))
        boxes, scores = [], []
        for level, box, score in zip((a, b, c), self.boxes, self.scores, strict=True):
            boxes.append(self._corners(box(level), images.shape[2] // level.shape[2]))
            scores.append(score(level).flatten(2).sigmoid())
        return torch.cat(boxes, 1), torch.cat(scores, 2)

    @staticmethod
    def _corners(raw: Tensor, stride: int) -> Tensor:
        """Distances to the sides, each the mean of a distribution over 16 bins, as corners."""
        batch, _, height, width = raw.shape
        bins = raw.view(batch, 4, _BINS, height * width).softmax(2)
        sides = (bins * torch.arange(_BINS, dtype=raw.dtype).view(1, 1, -1, 1)).sum(2)
        rows, columns = torch.meshgrid(
            torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij"
        )
        middle = torch.stack([columns.flatten(), rows.flatten()])
        low, high = middle - sides[:, :2], middle + sides[:, 2:]
        return (torch.cat([low, high], 1) * stride).transpose(1, 2)


class _Picked(nn.Module):
    """The detector and its non-maximum suppression, for one image: how many boxes data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _detector()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from torchvision.ops import nms

        boxes, scores = self.net(images)
        best, which = scores[0].max(0)
        likely = best > 0.5
        boxes, best, which = boxes[0][likely], best[likely], which[likely]
        kept = nms(boxes, best, 0.6)
        return boxes[kept], best[kept], which[kept]


def _detector() -> _Detector:
    """Scores are as far apart as after a training: else last bits decide what is picked."""
    torch.manual_seed(SEED)
    net = _Detector()
    for head in net.scores:
        nn.init.kaiming_normal_(head[-1].weight)
        nn.init.constant_(head[-1].bias, -4.0)
    trained(net, _image(4))
    return net


def _image(batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn(batch, 3, _SIZE, _SIZE, generator=generator)


def _write(path: Path) -> Feeds:
    dims = {"images": {0: "batch"}}
    dynamo(path, _detector(), {"images": _image(2)}, dims, ["boxes", "scores"])
    return {"images": _image().numpy()}


def _write_picked(path: Path) -> Feeds:
    import torchvision  # noqa: F401  the exporter knows its operators if it is there in time

    names = ["boxes", "scores", "classes"]
    return dynamo(path, _Picked(), {"images": _image()}, {}, names)


MODELS = (
    Model("yolo", "YOLOv8n's layers, 1x3x320x320", _write),
    Model("yolo_nms", "the same with its non-maximum suppression", _write_picked),
)
