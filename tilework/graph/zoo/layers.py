"""Layer constructors over a `Builder`: they draw the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network
from tilework.graph.operators import weights_order
from tilework.graph.zoo.parameters import Parameters
from tilework.index.extents import known, known_shape


class Layers:
    """Appends layers to a network of feature maps of any number of spatial axes.

    Weights are He-normal and the batch-norm statistics follow the variance that the network is
    known to have at that point (times a random factor), so activations stay of order one.
    Kernels, strides and padding are one number for all spatial axes or one per axis.
    """

    def __init__(self, name: str, layout: str, parameters: Parameters) -> None:
        self.b = Builder(name)
        self.layout = layout
        self.parameters = parameters

    def input(self, shape: Sequence[int]) -> str:
        """The network's input, batch first."""
        return self.b.input("data", shape)

    def rank(self, x: str) -> int:
        """Number of spatial axes of feature maps."""
        return len(self.b.shape(x)) - 2

    def channel_axis(self, x: str) -> int:
        """Which dimension of ``x`` counts the channels."""
        return len(self.b.shape(x)) - 1 if self.layout == "NHWC" else 1

    def channels(self, x: str) -> int:
        """Number of channels of ``x``."""
        return known(self.b.shape(x)[self.channel_axis(x)])

    def size(self, x: str) -> tuple[int, ...]:
        """Extents of the spatial axes of ``x``."""
        shape = known_shape(self.b.shape(x))
        return shape[1:-1] if self.layout == "NHWC" else shape[2:]

    def conv(
        self,
        x: str,
        out: int,
        kernel: int | tuple[int, ...],
        stride: int | tuple[int, ...],
        name: str,
        pad: int | tuple[int, ...] | None = None,
        groups: int = 1,
        gain: float = 2.0,
    ) -> str:
        """A convolution without bias; by default padded to keep the extents at stride 1.

        The variance of its output is ``gain`` times the mean square of its input.
        """
        rank = self.rank(x)
        taps, strides = _each(kernel, rank), _each(stride, rank)
        pads = tuple(k // 2 for k in taps) if pad is None else _each(pad, rank)
        fan_in = math.prod(taps) * self.channels(x) // groups
        shape = (*taps, self.channels(x) // groups, out)
        w = self.parameters.normal(shape, math.sqrt(gain / fan_in))
        if self.layout == "NCHW":
            w = np.ascontiguousarray(w.transpose(weights_order(rank + 2, "NCHW")))
        attrs = {"groups": groups} if groups > 1 else {}
        return self.b.op(
            f"conv{rank}d",
            x,
            self.b.constant(w, f"{name}_weight"),
            name=name,
            strides=strides,
            pads=pads * 2,
            dilation=(1,) * rank,
            layout=self.layout,
            **attrs,
        )

    def batch_norm(
        self,
        x: str,
        name: str,
        variance: float = 1.0,
        scale: bool = True,
        epsilon: float = 2e-5,
    ) -> str:
        """Batch normalisation of channels that are known to have about this ``variance``."""
        c = self.channels(x)
        spread = math.sqrt(variance)
        draw = self.parameters
        stats = {
            "gamma": draw.uniform((c,), 0.7, 1.3) if scale else np.ones(c, np.float32),
            "beta": draw.normal((c,), 0.1),
            "mean": draw.normal((c,), 0.1 * spread),
            "var": np.multiply(draw.uniform((c,), 0.7, 1.4), variance, dtype=np.float32),
        }
        values = [self.b.constant(v, f"{name}_{k}") for k, v in stats.items()]
        axis = self.channel_axis(x)
        return self.b.op("batch_norm", x, *values, name=name, axis=axis, epsilon=epsilon)

    def bias(self, x: str, name: str) -> str:
        """Add a number to each channel."""
        shape = [1] * len(self.b.shape(x))
        shape[self.channel_axis(x)] = self.channels(x)
        value = self.parameters.normal((self.channels(x),), 0.1).reshape(shape)
        return self.b.op("add", x, self.b.constant(value, f"{name}_bias"), name=f"{name}_out")

    def relu(self, x: str, name: str) -> str:
        """The positive part."""
        return self.b.op("relu", x, name=name)

    def max_pool(self, x: str, kernel: int, stride: int, name: str, pad: int = 0) -> str:
        """The largest element of each window."""
        dilation = (1,) * self.rank(x)
        return self._pool("max", x, kernel, stride, name, pad, dilation=dilation)

    def avg_pool(self, x: str, kernel: int, stride: int, name: str, pad: int = 0) -> str:
        """The mean of each window; the zeros of the padding count."""
        return self._pool("avg", x, kernel, stride, name, pad, count_include_pad=True)

    def _pool(
        self, kind: str, x: str, kernel: int, stride: int, name: str, pad: int, **more: Any
    ) -> str:
        rank = self.rank(x)
        window = {"kernel": (kernel,) * rank, "strides": (stride,) * rank}
        attrs = {**window, "pads": (pad,) * (2 * rank), **more, "layout": self.layout}
        return self.b.op(f"{kind}_pool{rank}d", x, name=name, **attrs)

    def global_avg_pool(self, x: str, name: str) -> str:
        """The mean of each channel, as a matrix of images and channels."""
        return self.flatten(self.b.op("global_avg_pool", x, name=name, layout=self.layout))

    def concat(self, xs: Sequence[str], name: str) -> str:
        """All channels of ``xs``."""
        return self.b.op("concat", *xs, name=name, axis=self.channel_axis(xs[0]))

    def dense(self, x: str, out: int, name: str, gain: float) -> str:
        """A dense layer with bias; ``gain`` as in `conv`."""
        fan_in = known(self.b.shape(x)[1])
        w = self.parameters.normal((out, fan_in), math.sqrt(gain / fan_in))
        bias = self.parameters.normal((out,), 0.1).reshape(1, out)
        y = self.b.op("dense", x, self.b.constant(w, f"{name}_weight"), name=name)
        return self.b.op("add", y, self.b.constant(bias, f"{name}_bias"), name=f"{name}_out")

    def flatten(self, x: str) -> str:
        """A matrix with a row per image."""
        shape = self.b.shape(x)
        return self.b.op("reshape", x, name="flatten", shape=(shape[0], math.prod(shape[1:])))

    def softmax(self, x: str) -> Network:
        """The finished network, which returns probabilities."""
        return self.b.finish([self.b.op("softmax", x, name="softmax", axis=1)])


def _each(number: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """One number per spatial axis."""
    if isinstance(number, int):
        return (number,) * rank
    if len(number) != rank:
        raise NetworkError(f"{list(number)} does not fit {rank} spatial axes")
    return number
