"""Reference networks with deterministic weights, for tuning, tests and comparison.

The ResNets are in *pre-activation* form: a unit normalises and activates its input before each
convolution, and the shortcut of a unit that changes the shape is a 1 x 1 convolution of the
activated input. A bottleneck unit strides in its first 1 x 1 convolution.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network

_LAYOUTS = ("NHWC", "NCHW")
_EPSILON = 2e-5


def names() -> tuple[str, ...]:
    """All networks that `get` knows."""
    return tuple(_NETWORKS)


def get(
    name: str,
    batch: int = 1,
    layout: str = "NHWC",
    seed: int = 0,
    image_shape: Sequence[int] | None = None,
) -> Network:
    """Build a network of the zoo.

    Args:
        name: one of `names`, for example ``"resnet-18"``.
        batch: number of images.
        layout: of the input and the convolutions, ``"NHWC"`` or ``"NCHW"``. The weights of one
            seed are the same in both.
        seed: of the weights.
        image_shape: extents of one image without the batch, in ``layout``; by default 224 x 224
            RGB (28 x 28 grey for the MLP, where it may be anything). ResNets use their small-image
            stem up to a height of 32.

    Raises:
        NetworkError: unknown name or layout, or an image that does not fit the network.
    """
    if name not in _NETWORKS:
        near = difflib.get_close_matches(name, _NETWORKS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(_NETWORKS)}"
        raise NetworkError(f"unknown network '{name}'; {hint}")
    if layout not in _LAYOUTS:
        raise NetworkError(f"unknown layout '{layout}'; known: {', '.join(_LAYOUTS)}")
    if batch < 1:
        raise NetworkError(f"the batch must be at least 1, not {batch}")
    if image_shape is not None and (not image_shape or min(image_shape) < 1):
        raise NetworkError(f"image shape {list(image_shape)} has an extent below 1")
    shape = None if image_shape is None else tuple(int(n) for n in image_shape)
    return _NETWORKS[name](_Layers(name, layout, seed), batch, shape)


class _Layers:
    """Layer constructors over a `Builder`: they draw the weights.

    Weights are He-normal and the batch-norm statistics follow the variance that the network is
    known to have at that point (times a random factor), so activations stay of order one.
    """

    def __init__(self, name: str, layout: str, seed: int) -> None:
        self.b = Builder(name)
        self.layout = layout
        # SFC64 is the fastest of NumPy's generators; 25 million weights take a quarter second
        self.rng = np.random.Generator(np.random.SFC64(seed))

    @property
    def channel_axis(self) -> int:
        return 3 if self.layout == "NHWC" else 1

    def channels(self, x: str) -> int:
        return self.b.shape(x)[self.channel_axis]

    def conv(self, x: str, out: int, kernel: int, stride: int, name: str) -> str:
        fan_in = kernel * kernel * self.channels(x)
        w = self.rng.standard_normal((kernel, kernel, self.channels(x), out), dtype=np.float32)
        w *= np.float32(math.sqrt(2.0 / fan_in))
        if self.layout == "NCHW":
            w = np.ascontiguousarray(w.transpose(3, 2, 0, 1))
        return self.b.op(
            "conv2d",
            x,
            self.b.constant(w, f"{name}_weight"),
            name=name,
            strides=(stride, stride),
            pads=(kernel // 2,) * 4,
            dilation=(1, 1),
            layout=self.layout,
        )

    def batch_norm(self, x: str, name: str, variance: float = 1.0, scale: bool = True) -> str:
        c = self.channels(x)
        spread = math.sqrt(variance)
        stats = {
            "gamma": self.rng.uniform(0.7, 1.3, c) if scale else np.ones(c),
            "beta": self.rng.normal(0.0, 0.1, c),
            "mean": self.rng.normal(0.0, 0.1 * spread, c),
            "var": variance * self.rng.uniform(0.7, 1.4, c),
        }
        values = [self.b.constant(v.astype(np.float32), f"{name}_{k}") for k, v in stats.items()]
        return self.b.op(
            "batch_norm", x, *values, name=name, axis=self.channel_axis, epsilon=_EPSILON
        )

    def relu(self, x: str, name: str) -> str:
        return self.b.op("relu", x, name=name)

    def dense(self, x: str, out: int, name: str, gain: float) -> str:
        fan_in = self.b.shape(x)[1]
        w = self.rng.standard_normal((out, fan_in), dtype=np.float32)
        w *= np.float32(math.sqrt(gain / fan_in))
        bias = self.rng.normal(0.0, 0.1, (1, out)).astype(np.float32)
        y = self.b.op("dense", x, self.b.constant(w, f"{name}_weight"), name=name)
        return self.b.op("add", y, self.b.constant(bias, f"{name}_bias"), name=f"{name}_out")

    def flatten(self, x: str) -> str:
        shape = self.b.shape(x)
        return self.b.op("reshape", x, name="flatten", shape=(shape[0], math.prod(shape[1:])))


@dataclass(frozen=True)
class _ResNet:
    """Units and output channels of the four stages."""

    units: tuple[int, ...]
    filters: tuple[int, ...]
    bottleneck: bool

    def __call__(self, net: _Layers, batch: int, image: tuple[int, ...] | None) -> Network:
        nhwc = net.layout == "NHWC"
        image = image or ((224, 224, 3) if nhwc else (3, 224, 224))
        if len(image) != 3:
            raise NetworkError(
                f"image shape {list(image)} must have 3 extents, in {net.layout[1:]} order"
            )
        x = net.b.input("data", (batch, *image))
        x = net.batch_norm(x, "bn_data", scale=False)
        small = (image[0] if nhwc else image[1]) <= 32
        x = net.conv(x, 64, 3 if small else 7, 1 if small else 2, "conv0")
        if not small:
            x = net.relu(net.batch_norm(x, "bn0"), "relu0")
            x = net.b.op(
                "max_pool2d",
                x,
                name="pool0",
                kernel=(3, 3),
                strides=(2, 2),
                pads=(1, 1, 1, 1),
                dilation=(1, 1),
                layout=net.layout,
            )
        variance = 1.0
        for stage, (units, filters) in enumerate(zip(self.units, self.filters, strict=True), 1):
            for unit in range(1, units + 1):
                first = unit == 1
                stride = 2 if first and stage > 1 else 1
                name = f"stage{stage}_unit{unit}"
                x = self._unit(net, x, filters, stride, not first, name, variance)
                variance = 2.0 if first else variance + 1.0
        x = net.relu(net.batch_norm(x, "bn1", variance), "relu1")
        x = net.flatten(net.b.op("global_avg_pool", x, name="pool1", layout=net.layout))
        # a gain well above one spreads the logits, so that softmax does not hide an error
        x = net.dense(x, 1000, "fc1", gain=6.0)
        return net.b.finish([net.b.op("softmax", x, name="softmax", axis=1)])

    def _unit(
        self, net: _Layers, x: str, out: int, stride: int, same: bool, name: str, variance: float
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


def _mlp(net: _Layers, batch: int, image: tuple[int, ...] | None) -> Network:
    """784-128-64-10 by default."""
    x = net.b.input(
        "data", (batch, *(image or ((28, 28, 1) if net.layout == "NHWC" else (1, 28, 28))))
    )
    x = net.flatten(x)
    x = net.relu(net.dense(x, 128, "fc1", gain=2.0), "relu1")
    x = net.relu(net.dense(x, 64, "fc2", gain=2.0), "relu2")
    x = net.dense(x, 10, "fc3", gain=2.0)
    return net.b.finish([net.b.op("softmax", x, name="softmax", axis=1)])


_Maker = Callable[[_Layers, int, "tuple[int, ...] | None"], Network]

_NETWORKS: dict[str, _Maker] = {
    "resnet-18": _ResNet((2, 2, 2, 2), (64, 128, 256, 512), bottleneck=False),
    "resnet-34": _ResNet((3, 4, 6, 3), (64, 128, 256, 512), bottleneck=False),
    "resnet-50": _ResNet((3, 4, 6, 3), (256, 512, 1024, 2048), bottleneck=True),
    "mlp": _mlp,
}
