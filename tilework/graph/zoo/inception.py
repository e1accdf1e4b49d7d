"""Inception v3: blocks of parallel convolutions whose outputs are concatenated.

Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.
"""

from __future__ import annotations

from tilework.graph.ir import Network
from tilework.graph.zoo.layers import Layers


def inception_v3(net: Layers, shape: tuple[int, ...]) -> Network:
    """Five convolutions, eleven blocks, pooling and a dense layer of 1000 classes.

    Images of 75 x 75 or more; 299 x 299 is usual.
    """
    t = _Towers(net)
    x = t.conv(net.input(shape), 32, 3, "conv", stride=2, pad=0, variance=2.0)
    x = t.conv(x, 32, 3, "conv_1", pad=0)
    x = t.conv(x, 64, 3, "conv_2")
    x = t.max_pool(x, "pool")
    x = t.conv(x, 80, 1, "conv_3")
    x = t.conv(x, 192, 3, "conv_4", pad=0)
    x = t.max_pool(x, "pool1")
    for name, projected in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        x = _block_a(t, x, projected, name)
    x = _block_b(t, x, "mixed_3")
    for name, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        x = _block_c(t, x, inner, name)
    x = _block_d(t, x, "mixed_8")
    x = _block_e(t, x, "avg", "mixed_9")
    x = _block_e(t, x, "max", "mixed_10")
    return net.softmax(net.dense(net.global_avg_pool(x, "global_pool"), 1000, "fc1", gain=6.0))


class _Towers:
    """Convolutions with batch norm and ReLU, and pooling, of one network."""

    def __init__(self, net: Layers) -> None:
        self.net = net
        self.square: dict[str, float] = {}  # about the mean square of a value; 0.5 if absent

    def conv(
        self,
        x: str,
        out: int,
        kernel: int | tuple[int, int],
        name: str,
        stride: int = 1,
        pad: int | None = None,
        variance: float | None = None,
    ) -> str:
        known = 2 * self.square.get(x, 0.5) if variance is None else variance
        y = self.net.conv(x, out, kernel, stride, f"{name}_conv1", pad=pad)
        return self.net.relu(self.net.batch_norm(y, f"{name}_bn", known), f"{name}_relu")

    def tower(
        self, x: str, name: str, *layers: tuple[int, int | tuple[int, int]], halved: bool = False
    ) -> str:
        """Convolutions one behind the other, each of so many channels and such a kernel."""
        for i, (out, kernel) in enumerate(layers):
            stride, pad = (2, 0) if halved and i == len(layers) - 1 else (1, None)
            x = self.conv(x, out, kernel, f"{name}_conv{f'_{i}' if i else ''}", stride, pad)
        return x

    def max_pool(self, x: str, name: str, stride: int = 2, pad: int = 0) -> str:
        y = self.net.max_pool(x, 3, stride, name, pad=pad)
        self.square[y] = 4 * self.square.get(x, 0.5)
        return y

    def avg_pool(self, x: str, name: str) -> str:
        y = self.net.avg_pool(x, 3, 1, name, pad=1)
        self.square[y] = 0.5 * self.square.get(x, 0.5)
        return y

    def concat(self, xs: list[str], name: str) -> str:
        y = self.net.concat(xs, name)
        sizes = [self.net.channels(x) for x in xs]
        squares = [self.square.get(x, 0.5) for x in xs]
        self.square[y] = sum(s * q for s, q in zip(sizes, squares, strict=True)) / sum(sizes)
        return y


def _block_a(t: _Towers, x: str, projected: int, name: str) -> str:
    """Branches of 1 x 1, 5 x 5, twice 3 x 3, and pooling."""
    one = t.conv(x, 64, 1, f"{name}_conv")
    five = t.tower(x, f"{name}_tower", (48, 1), (64, 5))
    three = t.tower(x, f"{name}_tower_1", (64, 1), (96, 3), (96, 3))
    pooled = t.conv(t.avg_pool(x, f"{name}_pool"), projected, 1, f"{name}_tower_2_conv")
    return t.concat([one, five, three, pooled], f"{name}_concat")


def _block_b(t: _Towers, x: str, name: str) -> str:
    """Half the extents, by 3 x 3 convolutions of stride 2 and pooling."""
    three = t.conv(x, 384, 3, f"{name}_conv", stride=2, pad=0)
    double = t.tower(x, f"{name}_tower", (64, 1), (96, 3), (96, 3), halved=True)
    return t.concat([three, double, t.max_pool(x, f"{name}_pool")], f"{name}_concat")


def _block_c(t: _Towers, x: str, inner: int, name: str) -> str:
    """7 x 7 convolutions as pairs of 1 x 7 and 7 x 1."""
    one = t.conv(x, 192, 1, f"{name}_conv")
    across, down = (inner, (1, 7)), (inner, (7, 1))
    seven = t.tower(x, f"{name}_tower", (inner, 1), across, (192, (7, 1)))
    last = (192, (1, 7))
    double = t.tower(x, f"{name}_tower_1", (inner, 1), down, across, down, last)
    pooled = t.conv(t.avg_pool(x, f"{name}_pool"), 192, 1, f"{name}_tower_2_conv")
    return t.concat([one, seven, double, pooled], f"{name}_concat")


def _block_d(t: _Towers, x: str, name: str) -> str:
    """Half the extents again; one branch sees 7 x 7 first."""
    three = t.tower(x, f"{name}_tower", (192, 1), (320, 3), halved=True)
    layers = (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3)
    seven = t.tower(x, f"{name}_tower_1", *layers, halved=True)
    return t.concat([three, seven, t.max_pool(x, f"{name}_pool")], f"{name}_concat")


def _block_e(t: _Towers, x: str, pooling: str, name: str) -> str:
    """3 x 3 convolutions as 1 x 3 beside 3 x 1."""
    one = t.conv(x, 320, 1, f"{name}_conv")
    three = t.conv(x, 384, 1, f"{name}_tower_conv")
    wide = t.conv(three, 384, (1, 3), f"{name}_tower_mixed_conv")
    high = t.conv(three, 384, (3, 1), f"{name}_tower_mixed_conv_1")
    double = t.tower(x, f"{name}_tower_1", (448, 1), (384, 3))
    double_wide = t.conv(double, 384, (1, 3), f"{name}_tower_1_mixed_conv")
    double_high = t.conv(double, 384, (3, 1), f"{name}_tower_1_mixed_conv_1")
    pool = f"{name}_pool"
    pooled = t.avg_pool(x, pool) if pooling == "avg" else t.max_pool(x, pool, stride=1, pad=1)
    pooled = t.conv(pooled, 192, 1, f"{name}_tower_2_conv")
    return t.concat([one, wide, high, double_wide, double_high, pooled], f"{name}_concat")
