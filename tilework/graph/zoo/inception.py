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
    five = t.conv(x, 48, 1, f"{name}_tower_conv")
    five = t.conv(five, 64, 5, f"{name}_tower_conv_1")
    three = t.conv(x, 64, 1, f"{name}_tower_1_conv")
    three = t.conv(three, 96, 3, f"{name}_tower_1_conv_1")
    three = t.conv(three, 96, 3, f"{name}_tower_1_conv_2")
    pooled = t.conv(t.avg_pool(x, f"{name}_pool"), projected, 1, f"{name}_tower_2_conv")
    return t.concat([one, five, three, pooled], f"{name}_concat")


def _block_b(t: _Towers, x: str, name: str) -> str:
    """Half the extents, by 3 x 3 convolutions of stride 2 and pooling."""
    three = t.conv(x, 384, 3, f"{name}_conv", stride=2, pad=0)
    double = t.conv(x, 64, 1, f"{name}_tower_conv")
    double = t.conv(double, 96, 3, f"{name}_tower_conv_1")
    double = t.conv(double, 96, 3, f"{name}_tower_conv_2", stride=2, pad=0)
    return t.concat([three, double, t.max_pool(x, f"{name}_pool")], f"{name}_concat")


def _block_c(t: _Towers, x: str, inner: int, name: str) -> str:
    """7 x 7 convolutions as pairs of 1 x 7 and 7 x 1."""
    one = t.conv(x, 192, 1, f"{name}_conv")
    seven = t.conv(x, inner, 1, f"{name}_tower_conv")
    seven = t.conv(seven, inner, (1, 7), f"{name}_tower_conv_1")
    seven = t.conv(seven, 192, (7, 1), f"{name}_tower_conv_2")
    double = t.conv(x, inner, 1, f"{name}_tower_1_conv")
    double = t.conv(double, inner, (7, 1), f"{name}_tower_1_conv_1")
    double = t.conv(double, inner, (1, 7), f"{name}_tower_1_conv_2")
    double = t.conv(double, inner, (7, 1), f"{name}_tower_1_conv_3")
    double = t.conv(double, 192, (1, 7), f"{name}_tower_1_conv_4")
    pooled = t.conv(t.avg_pool(x, f"{name}_pool"), 192, 1, f"{name}_tower_2_conv")
    return t.concat([one, seven, double, pooled], f"{name}_concat")


def _block_d(t: _Towers, x: str, name: str) -> str:
    """Half the extents again; one branch sees 7 x 7 first."""
    three = t.conv(x, 192, 1, f"{name}_tower_conv")
    three = t.conv(three, 320, 3, f"{name}_tower_conv_1", stride=2, pad=0)
    seven = t.conv(x, 192, 1, f"{name}_tower_1_conv")
    seven = t.conv(seven, 192, (1, 7), f"{name}_tower_1_conv_1")
    seven = t.conv(seven, 192, (7, 1), f"{name}_tower_1_conv_2")
    seven = t.conv(seven, 192, 3, f"{name}_tower_1_conv_3", stride=2, pad=0)
    return t.concat([three, seven, t.max_pool(x, f"{name}_pool")], f"{name}_concat")


def _block_e(t: _Towers, x: str, pooling: str, name: str) -> str:
    """3 x 3 convolutions as 1 x 3 beside 3 x 1."""
    one = t.conv(x, 320, 1, f"{name}_conv")
    three = t.conv(x, 384, 1, f"{name}_tower_conv")
    wide = t.conv(three, 384, (1, 3), f"{name}_tower_mixed_conv")
    high = t.conv(three, 384, (3, 1), f"{name}_tower_mixed_conv_1")
    double = t.conv(x, 448, 1, f"{name}_tower_1_conv")
    double = t.conv(double, 384, 3, f"{name}_tower_1_conv_1")
    double_wide = t.conv(double, 384, (1, 3), f"{name}_tower_1_mixed_conv")
    double_high = t.conv(double, 384, (3, 1), f"{name}_tower_1_mixed_conv_1")
    pool = f"{name}_pool"
    pooled = t.avg_pool(x, pool) if pooling == "avg" else t.max_pool(x, pool, stride=1, pad=1)
    pooled = t.conv(pooled, 192, 1, f"{name}_tower_2_conv")
    return t.concat([one, wide, high, double_wide, double_high, pooled], f"{name}_concat")
