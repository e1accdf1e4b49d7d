"""MobileNet (version 1, width 1.0): depthwise and pointwise convolutions in turns.

Source: Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
Applications", 2017, table 1.
"""

from __future__ import annotations

from tilework.graph.ir import Network
from tilework.graph.zoo.layers import Layers

# (output channels, stride) of the depthwise separable blocks
_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet(net: Layers, shape: tuple[int, ...]) -> Network:
    """A convolution, 13 separable blocks, pooling and a dense layer of 1000 classes."""
    x = net.conv(net.input(shape), 32, 3, 2, "conv_block_1_conv")
    x = _activated(net, x, "conv_block_1_bn", 2.0)
    for i, (out, stride) in enumerate(_BLOCKS, 1):
        name = f"separable_conv_block_{i}"
        x = net.conv(x, net.channels(x), 3, stride, f"{name}_depthwise", groups=net.channels(x))
        x = _activated(net, x, f"{name}_bn1")
        x = _activated(net, net.conv(x, out, 1, 1, f"{name}_conv2"), f"{name}_bn2")
    return net.softmax(net.dense(net.global_avg_pool(x, "pool"), 1000, "fc", gain=6.0))


def _activated(net: Layers, x: str, name: str, variance: float = 1.0) -> str:
    return net.relu(net.batch_norm(x, name, variance, epsilon=1e-5), f"{name}_relu")
