"""Residual networks over images and over video.

They are in *pre-activation* form: a unit normalises and activates its input before each
convolution, and the shortcut of a unit that changes the shape is a 1 x 1 convolution of the
activated input. A bottleneck unit strides in its first 1 x 1 convolution. Over video all kernels
have a third axis; the stem does not stride along time and no pooling follows it.
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.graph.ir import Network
from tilework.graph.zoo.layers import Layers

_SMALL_IMAGE = 32


@frozen
class ResNet:
    """Units and output channels of the four stages."""

    units: tuple[int, ...]
    filters: tuple[int, ...]
    bottleneck: bool

    def __call__(self, net: Layers, shape: tuple[int, ...]) -> Network:
        """Build the network for an input of ``shape``: two spatial axes, or three for video."""
        x = net.input(shape)
        height = net.size(x)[-2]
        x = _stem(net, net.batch_norm(x, "bn_data", scale=False), height <= _SMALL_IMAGE)
        variance = 1.0
        for stage, (units, filters) in enumerate(zip(self.units, self.filters, strict=True), 1):
            for unit in range(1, units + 1):
                first = unit == 1
                stride = 2 if first and stage > 1 else 1
                name = f"stage{stage}_unit{unit}"
                x = self._unit(net, x, filters, stride, not first, name, variance)
                variance = 2.0 if first else variance + 1.0
        x = net.relu(net.batch_norm(x, "bn1", variance), "relu1")
        x = net.global_avg_pool(x, "pool1")
        # a gain well above one spreads the logits, so that softmax does not hide an error
        return net.softmax(net.dense(x, 1000, "fc1", gain=6.0))

    def _unit(
        self, net: Layers, x: str, out: int, stride: int, same: bool, name: str, variance: float
    ) -> str:
        act = net.relu(net.batch_norm(x, f"{name}_bn1", variance), f"{name}_relu1")
        inner = out // 4
        body = ((inner, 1, stride), (inner, 3, 1), (out, 1, 1)) if self.bottleneck else (
            (out, 3, stride), (out, 3, 1)
        )  # fmt: skip
        y = act
        for i, (channels, kernel, step) in enumerate(body, 1):
            if i > 1:
                y = net.relu(net.batch_norm(y, f"{name}_bn{i}"), f"{name}_relu{i}")
            y = net.conv(y, channels, kernel, step, f"{name}_conv{i}")
        shortcut = x if same else net.conv(act, out, 1, stride, f"{name}_sc")
        return net.b.op("add", y, shortcut, name=f"{name}_out")


def _stem(net: Layers, x: str, small: bool) -> str:
    if small:
        return net.conv(x, 64, 3, 1, "conv0")
    if net.rank(x) == 3:
        x = net.conv(x, 64, (3, 7, 7), (1, 2, 2), "conv0")
        return net.relu(net.batch_norm(x, "bn0"), "relu0")
    x = net.conv(x, 64, 7, 2, "conv0")
    x = net.relu(net.batch_norm(x, "bn0"), "relu0")
    return net.max_pool(x, 3, 2, "pool0", pad=1)
