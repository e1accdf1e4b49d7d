"""Write the exported PyTorch models of this folder: ``python tests/data/models/export.py``.

Needs the extra ``torch``. The networks are small relatives of well-known ones, with random weights
of a fixed seed and batch-norm statistics as after a training; each is exported by one of PyTorch's
two exporters: the one that traces TorchScript (older opsets) and the one on `torch.export`
(newer opsets), the transformer by both. What the exporters note of the machine is taken out.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent


def conv_bn(cin: int, cout: int, k: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution and batch norm without an activation."""
    conv = nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout))


class PlainCNN(nn.Sequential):
    """VGG-like: convolutions, max pooling, a head of dense layers with dropout."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.AdaptiveAvgPool2d((2, 2)),
            nn.Flatten(),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(32, 10),
            nn.LogSoftmax(dim=1),
        )


class Bottleneck(nn.Module):
    """ResNet v1.5's."""

    def __init__(self, cin: int, inner: int, cout: int, stride: int) -> None:
        super().__init__()
        self.a, self.b = conv_bn(cin, inner, 1), conv_bn(inner, inner, 3, stride)
        self.c = conv_bn(inner, cout, 1)
        same = cin == cout and stride == 1
        self.skip = nn.Identity() if same else conv_bn(cin, cout, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.skip(x))


class Residual(nn.Module):
    """A ResNet of three bottlenecks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 8, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(
            Bottleneck(8, 4, 16, 1), Bottleneck(16, 4, 16, 1), Bottleneck(16, 8, 32, 2)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, 10]."""
        return self.head(torch.flatten(self.blocks(self.stem(x)).mean((2, 3)), 1))


class SqueezeExcite(nn.Module):
    """MobileNetV3's inverted residual with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 8, 3, 2), nn.Hardswish())
        self.expand = nn.Sequential(conv_bn(8, 24, 1), nn.Hardswish())
        self.depthwise = nn.Sequential(conv_bn(24, 24, 5, 1, 24), nn.Hardswish())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.ReLU(), nn.Conv2d(6, 24, 1)
        )
        self.project = conv_bn(24, 8, 1)
        self.act = nn.SiLU()
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, 10]."""
        x = self.stem(x)
        y = self.depthwise(self.expand(x))
        y = y * F.hardsigmoid(self.squeeze(y))
        z = self.act(x + self.project(y))
        y = self.expand(z) * torch.sigmoid(self.squeeze(self.expand(z)))
        z = z + self.project(y)
        return self.head(F.adaptive_avg_pool2d(z, 1).flatten(1))


class Separable(nn.Sequential):
    """MobileNet's depthwise-separable blocks with ReLU6."""

    def __init__(self) -> None:
        blocks: list[nn.Module] = [conv_bn(3, 8, 3, 2), nn.ReLU6()]
        for cin, cout, stride in ((8, 16, 1), (16, 24, 2), (24, 24, 1)):
            blocks += [conv_bn(cin, cin, 3, stride, cin), nn.ReLU6()]
            blocks += [conv_bn(cin, cout, 1), nn.ReLU6()]
        super().__init__(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


class DenseLayer(nn.Module):
    """DenseNet's layer: what it computes is appended to its input."""

    def __init__(self, cin: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, 2 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * growth)
        self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C + growth, H, W]."""
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], 1)


class DenseConnected(nn.Sequential):
    """Two dense blocks with a transition between them."""

    def __init__(self) -> None:
        first = [DenseLayer(8 + 4 * i, 4) for i in range(3)]
        second = [DenseLayer(10 + 4 * i, 4) for i in range(2)]
        super().__init__(
            conv_bn(3, 8, 3, 2),
            nn.ReLU(),
            *first,
            nn.BatchNorm2d(20),
            nn.ReLU(),
            nn.Conv2d(20, 10, 1, bias=False),
            nn.AvgPool2d(2),
            *second,
            nn.BatchNorm2d(18),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(18, 10),
        )


class EncoderDecoder(nn.Module):
    """A U-Net: skip connections, one step up by resizing and one by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.LeakyReLU(0.1))
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.PReLU(16))
        self.down3 = nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ELU())
        self.up2 = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.mix2 = nn.Conv2d(32, 16, 3, padding=1)
        self.mix1 = nn.Conv2d(24, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 2, 1)
        self.norm = nn.InstanceNorm2d(16, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, 2, H, W], H and W divisible by 4."""
        a = self.down1(x)
        b = self.down2(a)
        y = torch.cat([self.up2(self.down3(b)), b], 1)
        y = F.gelu(self.norm(self.mix2(y)))
        y = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        y = F.softplus(self.mix1(torch.cat([y, a], 1)))
        y = self.out(F.pad(y, (1, 1, 1, 1), mode="reflect")[:, :, 1:-1, 1:-1])
        return torch.softmax(F.interpolate(y, size=x.shape[2:], mode="nearest"), 1)


class Attention(nn.Module):
    """Multi-head self-attention written out as in a BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """``x`` [N, T, width]; ``mask`` [N, T] of bool: which tokens are there."""
        n, t, width = x.shape
        q, k, v = (
            f(x).view(n, t, self.heads, width // self.heads).transpose(1, 2)
            for f in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(~mask[:, None, None, :], -1e4)
        y = torch.softmax(scores, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class TransformerLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual and a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """One layer."""
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Transformer(nn.Module):
    """An encoder of two layers over token ids, with a pooled and a sequence output."""

    def __init__(
        self, tokens: int = 50, width: int = 32, heads: int = 4, longest: int = 24
    ) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(tokens, width), nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(TransformerLayer(width, 4) for _ in range(2))
        self.pool = nn.Linear(width, 8)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """``ids`` [N, T] of int64, ``mask`` [N, T] of bool -> [N, T, width], [N, 8]."""
        places = torch.arange(ids.shape[1])
        x = self.norm(self.embed(ids) + self.place(places))
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class Export(NamedTuple):
    """A file: what it holds and how it is written; ``batch`` is symbolic if ``dynamic``."""

    file: str
    module: Callable[[], nn.Module]
    opset: int
    dynamo: bool
    dynamic: bool = False


IMAGE = (torch.zeros(1, 3, 32, 32),)
TOKENS = (torch.zeros(1, 16, dtype=torch.int64), torch.ones(1, 16, dtype=torch.bool))
EXPORTS = (
    Export("plain_cnn_opset9", PlainCNN, 9, dynamo=False),
    Export("plain_cnn_opset20", PlainCNN, 20, dynamo=True),
    Export("residual_opset11", Residual, 11, dynamo=False, dynamic=True),
    Export("residual_opset18", Residual, 18, dynamo=True),
    Export("squeeze_excite_opset12", SqueezeExcite, 12, dynamo=False),
    Export("squeeze_excite_opset21", SqueezeExcite, 21, dynamo=True),
    Export("separable_opset10", Separable, 10, dynamo=False),
    Export("dense_connected_opset13", DenseConnected, 13, dynamo=False, dynamic=True),
    Export("encoder_decoder_opset16", EncoderDecoder, 16, dynamo=False),
    Export("encoder_decoder_opset21", EncoderDecoder, 21, dynamo=True),
    Export("transformer_opset12", Transformer, 12, dynamo=False, dynamic=True),
    Export("transformer_opset23", Transformer, 23, dynamo=True, dynamic=True),
)


def trained(module: nn.Module) -> nn.Module:
    """The module ready for inference, with statistics and affine weights of its own."""
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm | nn.InstanceNorm2d):
            nn.init.uniform_(m.weight, 0.7, 1.3)
            nn.init.normal_(m.bias, 0, 0.1)
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean, 0, 0.1)
            nn.init.uniform_(m.running_var, 0.7, 1.4)
    return module.eval()


def export(e: Export) -> onnx.ModelProto:
    """The exported model."""
    torch.manual_seed(0)
    module = trained(e.module())
    text = e.module is Transformer
    inputs = TOKENS if text else IMAGE
    names = ["ids", "mask"] if text else ["image"]
    options: dict[str, object] = {}
    if e.dynamic and e.dynamo:
        inputs = tuple(torch.cat([x, x]) for x in inputs)  # an extent of 1 would be specialised
        batch = torch.export.Dim("batch")
        options["dynamic_shapes"] = tuple({0: batch} for _ in inputs)
    elif e.dynamic:
        options["dynamic_axes"] = {n: {0: "batch"} for n in names}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            inputs,
            None if e.dynamo else file,
            input_names=names,
            output_names=["sequence", "pooled"] if text else ["output"],
            opset_version=e.opset,
            dynamo=e.dynamo,
            **options,
        )
    model = program.model_proto if e.dynamo else onnx.load_from_string(file.getvalue())
    return anonymous(model)


def anonymous(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without stack traces, paths and other notes."""
    for part in (model, model.graph, *model.graph.node, *model.functions):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for f in model.functions:
        for node in f.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
    for tensor in model.graph.initializer:
        tensor.ClearField("metadata_props")
    return model


def main() -> None:
    """Write all files."""
    for e in EXPORTS:
        model = export(e)
        onnx.checker.check_model(model, full_check=True)
        path = FOLDER / f"{e.file}.onnx"
        path.write_bytes(model.SerializeToString())
        size, opset = path.stat().st_size, model.opset_import[0].version
        print(f"{path.name}: {size / 1000:.0f} kB, opset {opset}")  # noqa: T201


if __name__ == "__main__":
    main()
