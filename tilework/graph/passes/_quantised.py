"""What the passes on quantised numbers share: parameters that are known, and constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node
from tilework.graph.operators.base import BYTES

_SCALES = (1e-30, 1e30)
FLIP = 128
"""What is between the numbers of one byte as uint8 and as int8."""
FITS = 0.99
"""Sums of 32 bits times as much, and a zero point, are within 32 bits."""


@frozen
class Parameters:
    """One scale and one zero point, of all elements of a value, and their type."""

    scale: np.float32
    zero: int
    dtype: str

    @property
    def unsigned(self) -> Parameters:
        """Of the same numbers as uint8."""
        if self.dtype != "int8":
            return self
        return Parameters(self.scale, self.zero + FLIP, "uint8")

    def constants(self, b: Builder) -> tuple[str, str]:
        """Scale and zero point as values."""
        zero = np.asarray(self.zero, self.dtype)
        return b.constant(np.asarray(self.scale), "scale"), b.constant(zero, "zero")


@frozen
class Computed:
    """One scale and one zero point that a run computes: values, and the type of the numbers."""

    scale: str
    zero: str
    dtype: str


@frozen(eq=False)
class QuantisedConstant:
    """Integers that stand for ``(numbers - zeros) * scales``; all of one shape."""

    numbers: NDArray[np.int64]
    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    dtype: str


def plain_scales(scales: NDArray[np.float32] | np.float32) -> bool:
    """Whether products of scales like these, and quotients, are normal float32."""
    return bool(np.all((scales > _SCALES[0]) & (scales < _SCALES[1])))


def parameters(source: Network | Builder, node: Node) -> Parameters | None:
    """Those of a ``quantize`` or ``dequantize`` node, if they are constants and one of each."""
    scale, zero = (source.constants.get(v) for v in node.inputs[1:])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    s = np.float32(scale.reshape(()))
    if zero.dtype.name not in BYTES or not plain_scales(s):
        return None
    return Parameters(s, int(zero.reshape(())), zero.dtype.name)


def computed(source: Network | Builder, node: Node) -> Computed | None:
    """Those of a ``dequantize`` node, if there is one of each, and one at least is no constant."""
    numbers, scale, zero = node.inputs
    if all(v in source.constants for v in (scale, zero)):
        return None
    one = all(math.prod(source.types[v].shape) == 1 for v in (scale, zero))
    dtype = source.types[numbers].dtype
    return Computed(scale, zero, dtype) if one and dtype in BYTES else None


def quantised_constant(net: Network, value: str) -> QuantisedConstant | None:
    """A constant that is dequantised, and perhaps moved, where it is read."""
    node = net.producer.get(value)
    if node is None:
        return None
    if node.op in ("reshape", "transpose"):
        inner = quantised_constant(net, node.inputs[0])
        if inner is None:
            return None
        q, s, z = (_moved(node, a) for a in (inner.numbers, inner.scales, inner.zeros))
        return QuantisedConstant(q, s, z, inner.dtype)
    if node.op != "dequantize" or any(v not in net.constants for v in node.inputs):
        return None
    q, s, z = (net.constants[v] for v in node.inputs)
    if not plain_scales(s):
        return None
    zeros = np.broadcast_to(z, q.shape).astype(np.int64)
    scales = np.broadcast_to(s, q.shape)
    return QuantisedConstant(q.astype(np.int64), scales, zeros, q.dtype.name)


def _moved(node: Node, array: NDArray[Any]) -> NDArray[Any]:
    if node.op == "reshape":
        return array.reshape(node.attrs["shape"])
    return array.transpose(node.attrs["perm"])
