"""A multilayer perceptron."""

from __future__ import annotations

from tilework.graph.ir import Network
from tilework.graph.zoo.layers import Layers


def mlp(net: Layers, shape: tuple[int, ...]) -> Network:
    """Dense layers of 128, 64 and 10 units over the flattened input."""
    x = net.flatten(net.input(shape))
    x = net.relu(net.dense(x, 128, "fc1", gain=2.0), "relu1")
    x = net.relu(net.dense(x, 64, "fc2", gain=2.0), "relu2")
    return net.softmax(net.dense(x, 10, "fc3", gain=2.0))
