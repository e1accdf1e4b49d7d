"""SqueezeNet 1.1: fire modules, which squeeze the channels and expand them on two branches.

Source: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016, in
the revised form of its authors: a 3 x 3 stem and earlier pooling.
"""

from __future__ import annotations

from tilework.graph.ir import Network
from tilework.graph.zoo.layers import Layers

# squeezed channels of the fire modules (each branch expands them four times); 0 pools
_MODULES = (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)
# what pooling does to the mean square of its input, which the next convolution makes good
_AFTER_POOL = 1.2


def squeezenet(net: Layers, shape: tuple[int, ...]) -> Network:
    """A convolution, eight fire modules, and a 1 x 1 convolution to 1000 classes."""
    x = _conv(net, net.input(shape), 64, 3, "conv1", stride=2, gain=1.0)
    fires, pools = 0, 0
    gain = 2.0
    for squeezed in _MODULES:
        if not squeezed:
            pools += 1
            x = net.max_pool(x, 3, 2, f"pool{pools}")
            gain = _AFTER_POOL
            continue
        fires += 1
        name = f"fire{fires}"
        x = _conv(net, x, squeezed, 1, f"{name}_input", gain=gain)
        left = _conv(net, x, 4 * squeezed, 1, f"{name}_left")
        right = _conv(net, x, 4 * squeezed, 3, f"{name}_right")
        x = net.concat([left, right], f"{name}_concat")
        gain = 2.0
    # the pooled logits of random weights are nearly alike; a large gain spreads them
    x = _conv(net, x, 1000, 1, "conv_final", gain=40.0)
    return net.softmax(net.global_avg_pool(x, "pool_final"))


def _conv(
    net: Layers, x: str, out: int, kernel: int, name: str, stride: int = 1, gain: float = 2.0
) -> str:
    y = net.bias(net.conv(x, out, kernel, stride, name, gain=gain), name)
    return net.relu(y, f"{name}_relu")
