"""Networks as PyTorch's quantisers write them (pt2e), and what they are in integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import nn
from torch.nn import functional as F

OPS = torch.ops.quantized_decomposed
RANGES = {
    "u8": (torch.uint8, 0, 255),
    "s8": (torch.int8, -128, 127),
    "s8 without the least": (torch.int8, -127, 127),
}
Data = Callable[[str, torch.Tensor], torch.Tensor]


class Quantised(nn.Module):
    """Layers between ``quantize`` and ``dequantize``, whose scales the first run chooses.

    Args:
        form: of the data, one of `RANGES`.
        dynamic: scales are chosen in every run.
        listed: the quantised tensors are outputs, too.
    """

    def __init__(self, form: str, dynamic: bool = False, listed: bool = False) -> None:
        super().__init__()
        self.form, self.dynamic, self.listed = RANGES[form], dynamic, listed
        self.parameters_of: dict[str, tuple[float, int]] = {}
        self.generator = torch.Generator().manual_seed(0)

    def add(self, name: str, *shape: int) -> None:
        """Weights of int8 with a scale for each output channel, and a bias."""
        w = torch.randn(shape, generator=self.generator) / torch.Size(shape[1:]).numel() ** 0.5
        scale = w.abs().flatten(1).amax(1) / 127
        whole = torch.round(w / scale.reshape(-1, *(1,) * (len(shape) - 1))).to(torch.int8)
        self.register_buffer(f"{name}_weight", whole)
        self.register_buffer(f"{name}_scale", scale)
        self.register_buffer(f"{name}_zero", torch.zeros(shape[0], dtype=torch.int64))
        self.register_buffer(f"{name}_bias", torch.randn(shape[0], generator=self.generator) / 8)

    def layer(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and bias as real numbers."""
        w, scale, zero, bias = (
            getattr(self, f"{name}_{p}") for p in ("weight", "scale", "zero", "bias")
        )
        wide = OPS.dequantize_per_channel(w, scale, zero, 0, -128, 127, torch.int8)
        return wide, bias

    def rounded(self, name: str, x: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
        """Real numbers, as bytes, which are added to a list, and back."""
        dtype, low, high = self.form
        if self.dynamic:
            scale, zero = OPS.choose_qparams.tensor(x, low, high, 1e-6, dtype)
            y = OPS.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
            return OPS.dequantize_per_tensor.tensor(y, scale, zero, low, high, dtype)
        if name not in self.parameters_of:
            least, most = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
            step = float(torch.tensor((most - least) / (high - low)))
            self.parameters_of[name] = step, round(low - least / step)
        scale, zero = self.parameters_of[name]
        y = OPS.quantize_per_tensor(x, scale, zero, low, high, dtype)
        seen.append(y)
        return OPS.dequantize_per_tensor(y, scale, zero, low, high, dtype)

    def forward(self, x: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []
        y = self.run(x, lambda name, y: self.rounded(name, y, seen))
        return (*seen, y) if self.listed else y

    def run(self, x: torch.Tensor, data: Data) -> torch.Tensor:
        """The network; ``data`` rounds what it is given a name for."""
        raise NotImplementedError


class Images(Quantised):
    """Convolutions, a depthwise one, a residual addition, pooling, a dense layer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.add("stem", 16, 3, 3, 3)
        self.add("inner", 16, 16, 3, 3)
        self.add("apart", 16, 1, 3, 3)
        self.add("last", 10, 16 * 9)

    def run(self, x: torch.Tensor, data: Data) -> torch.Tensor:
        x = data("image", x)
        x = data("stem", F.relu(F.conv2d(x, *self.layer("stem"), stride=2, padding=1)))
        y = F.conv2d(x, *self.layer("inner"), padding=1)
        x = data("sum", F.relu(y + x))
        x = data("apart", F.hardtanh(F.conv2d(x, *self.layer("apart"), groups=16), 0, 6))
        x = data("pool", F.max_pool2d(x, 2))
        return F.linear(x.flatten(1), *self.layer("last"))


class Encoder(Quantised):
    """One layer of attention, its products with weights in bytes."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for name in ("q", "k", "v", "out"):
            self.add(name, 16, 16)
        self.add("up", 64, 16)
        self.add("down", 16, 64)

    def run(self, x: torch.Tensor, data: Data) -> torch.Tensor:
        tokens = data("tokens", x)
        q, k, v = (
            F.linear(tokens, *self.layer(n)).view(*x.shape[:2], 2, 8).transpose(1, 2)
            for n in ("q", "k", "v")
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = F.layer_norm(x + F.linear(data("heads", y), *self.layer("out")), (16,))
        y = F.gelu(F.linear(data("normal", x), *self.layer("up")))
        return x + F.linear(data("gelu", y), *self.layer("down"))


@dataclass(frozen=True)
class Sums:
    """Sums of products of integers, limited by an activation perhaps, before they are scaled."""

    whole: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor
    low: float = -float("inf")
    high: float = float("inf")

    def real(self) -> torch.Tensor:
        """What it stands for, where it is not quantised at once."""
        return (self.whole.float() * self.scale + self.bias).clamp(self.low, self.high)

    def quantised(self, scale: float, zero: int, low: int, high: int, dtype: Any) -> torch.Tensor:
        """``round(sum * ((sx sw) / sy)) + zero``, the bias in the integers of the sum."""
        step = torch.tensor(scale)
        whole = self.whole + torch.round(self.bias / self.scale).long()
        y = torch.round(whole.float() * (self.scale / step)) + zero
        for limit, choose in ((self.low, torch.maximum), (self.high, torch.minimum)):
            if abs(limit) != float("inf"):
                y = choose(y, torch.round(torch.tensor(limit) / step) + zero)
        return y.clamp(low, high).to(dtype)


class Integers(torch.fx.Interpreter):
    """Runs a quantised program as `docs/quantised.md` says, its sums of products in integers."""

    def __init__(self, program: torch.fx.GraphModule) -> None:
        super().__init__(program, garbage_collect_values=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        name = str(n.target)
        args = [self.env[a] if isinstance(a, torch.fx.Node) else a for a in n.args]
        if name.startswith(("aten.conv2d", "aten.linear")):
            return self._product(n, name.startswith("aten.conv2d"), args)
        sums = args[0] if args and isinstance(args[0], Sums) else None
        if sums is not None and len(n.args[0].users) == 1:
            if name.startswith("aten.relu"):
                return replace(sums, low=0.0)
            if name.startswith("aten.hardtanh"):
                return replace(sums, low=float(args[1]), high=float(args[2]))
            if name.startswith("quantized_decomposed.quantize_per_tensor"):
                return sums.quantised(*args[1:])
        for a in n.all_input_nodes:
            if isinstance(self.env[a], Sums):
                self.env[a] = self.env[a].real()
        return super().run_node(n)

    def _product(self, n: torch.fx.Node, conv: bool, args: list[Any]) -> Sums:
        data, data_scale = self._whole(n.args[0])
        weights, scale = self._whole(n.args[1])
        y = (F.conv2d if conv else F.linear)(data.double(), weights.double(), None, *args[3:])
        column = (-1, *(1,) * (y.ndim - 2)) if conv else (-1,)
        bias = torch.zeros(len(weights)) if args[2] is None else args[2]
        scale = (data_scale * scale).reshape(column)
        return Sums(y.long(), scale, bias.detach().reshape(column))

    def _whole(self, node: torch.fx.Node) -> tuple[torch.Tensor, torch.Tensor]:
        """Integers without their zero point, and the scale."""
        if not str(node.target).startswith("quantized_decomposed.dequantize"):
            whole, scale = self._whole(node.args[0])
            again = [self.env[a] if isinstance(a, torch.fx.Node) else a for a in node.args[1:]]
            return node.target(whole.double(), *again).long(), scale
        x, scale, zero = (
            self.env[a] if isinstance(a, torch.fx.Node) else torch.tensor(a) for a in node.args[:3]
        )
        beside = (-1, *(1,) * (x.ndim - 1)) if zero.ndim else ()
        return x.long() - zero.reshape(beside), scale.float()
