"""Products of dequantised numbers become products of bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import integer_range
from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import CONVOLUTIONS, Shape
from tilework.graph.passes._quantised import (
    FITS,
    FLIP,
    Computed,
    Parameters,
    QuantisedConstant,
    computed,
    parameters,
    quantised_constant,
)
from tilework.graph.passes._signed_weights import SignedWeights, few_inputs
from tilework.graph.passes._sums_of_windows import sums_of_windows
from tilework.index.extents import known_shape
from tilework.index.symbols import symbols_of

_PRODUCTS = (*CONVOLUTIONS, "dense", "matmul")
_GROUP = 4
"""Channels that one instruction takes together."""
_CLOSE = 1e-5
"""A bias of so nearly the scale of the sums is a bias in their integers."""


def integer_products(net: Network) -> Network:
    """Sum products of bytes in int32, and scale the sums once.

    Factors are dequantised bytes: data with one scale and zero point, constant weights with one of
    each for all, or for each output channel. Sums are exact; the network differs from the one
    before as ONNX Runtime's kernels do: ``rint(sum * ((sx * sw) / sy)) + zy``. Where the sums are
    not quantised at once, they are dequantised, ``sum * (sx * sw)``.

    rewrite:
        quantize(clip(conv2d(dequantize(x), dequantize(w)) + b))
            ->  clip(requantize(conv2d(x, w; sums="int32", fill=zx), init, scale, zy))
        dense(dequantize(x), dequantize(w))  ->  dequantize(dense(x, w; sums="int32"), ...)

    with ``init = b - zx * sum(w)``. Weights are made signed, data have been made unsigned
    (`move_quantised`); the zero points that weights have then are taken, times the sum of each
    window of ``x - zx``. Products stay where sums could leave 32 bits. Scale and zero point of the
    data may be computed by a run; sums are dequantised then.
    """
    if not any(n.op == "dequantize" for n in net.nodes):
        return net
    matches = {m.last.name: m for m in (_match(net, n) for n in net.nodes) if m is not None}
    if not matches:
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        match = matches.get(node.name)
        return None if match is None else _Integers(b, match).built()

    return rewrite(net, rule)


# -- what is found ----------------------------------------------------------------------------


@frozen(eq=False)
class _Match:
    """A product that can be computed in integers, and what is behind it up to its quantisation.

    Attributes:
        product: the product.
        data: the integers that it reads, by name.
        x: their parameters, perhaps computed.
        w: the weights.
        scales, zeros: of the weights, by output channel.
        bias: in the integers of the sums, by output channel.
        tail: nodes between the product and ``last`` that change the shape.
        low, high: what an activation limits the result to.
        y: parameters of the result; None where it is dequantised.
        last: the node whose value is replaced.
        shape: of the product.
    """

    product: Node
    data: str
    x: Parameters | Computed
    w: QuantisedConstant
    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    bias: NDArray[np.int64]
    tail: tuple[Node, ...]
    low: float
    high: float
    y: Parameters | None
    last: Node
    shape: Shape


def _match(net: Network, node: Node) -> _Match | None:
    if node.op not in _PRODUCTS or node.attrs.get("transpose_a") or "sums" in node.attrs:
        return None
    source = net.producer.get(node.inputs[0])
    if source is None or source.op != "dequantize" or source.inputs[0] in net.constants:
        return None
    x = parameters(net, source) or computed(net, source)
    w = quantised_constant(net, node.inputs[1])
    if x is None or w is None or w.dtype not in ("int8", "uint8"):
        return None
    if node.attrs.get("layout", "NCHW") != "NCHW":
        return None
    axis = 1 if node.op == "matmul" and not node.attrs.get("transpose_b") else 0
    scales, zeros = (_by_channel(a, axis) for a in (w.scales, w.zeros))
    if scales is None or zeros is None:
        return None
    shape = net.types[node.name].shape
    if isinstance(x, Computed):
        if symbols_of(net.types[source.name].shape[2:]) and any(node.attrs.get("pads", ())):
            return None
        tail = _Tail(node)
    else:
        tail = _tail(net, node, x.scale * scales, not source.attrs.get("keeps_bias"))
    largest = np.abs(np.moveaxis(w.numbers - w.zeros, axis, 0).reshape(len(scales), -1)).sum(1)
    for end in (tail, _Tail(node)):
        bias = np.zeros(len(scales), np.int64) if end.bias is None else end.bias
        if (np.abs(bias) + (255 * largest)).max() < 2**31 and np.abs(bias).max() < 2**30:
            return _Match(
                node, source.inputs[0], x, w, scales, zeros, bias, tuple(end.views),
                end.low, end.high, end.y, end.last, shape,
            )  # fmt: skip
    return None


def _by_channel(array: NDArray[Any], axis: int) -> NDArray[Any] | None:
    """The vector along ``axis``, if the array is the same along all others."""
    flat = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    return flat[:, 0] if (flat == flat[:, :1]).all() else None


@dataclass(eq=False)
class _Tail:
    """What follows a product: see `_Match`."""

    last: Node
    bias: NDArray[np.int64] | None = None
    low: float = -np.inf
    high: float = np.inf
    y: Parameters | None = None
    views: tuple[Node, ...] = ()


def _tail(net: Network, node: Node, scales: NDArray[np.float32], rounds: bool) -> _Tail:
    """The way from a product to its quantisation; the product alone if there is none.

    Args:
        scales: of the sums.
        rounds: whether a bias of floats is rounded to integers of these scales.
    """
    tail, at = _Tail(node), node
    while net.alone(at.name):
        (reader,) = net.consumers[at.name]
        bounded = np.isfinite([tail.low, tail.high]).any()
        if reader.op == "quantize" and reader.inputs[0] == at.name:
            tail.y, tail.last = parameters(net, reader), reader
            return tail if tail.y is not None else _Tail(node)
        if reader.op == "reshape":
            tail.views = (*tail.views, reader)
        elif reader.op == "add" and not bounded:
            bias = _bias(net, node, reader, at.name, scales, rounds)
            if bias is None:
                break
            tail.bias = bias if tail.bias is None else tail.bias + bias
        elif reader.op == "relu" and not bounded:
            tail.low = 0.0
        elif reader.op == "clip" and not bounded:
            tail.low, tail.high = float(reader.attrs["low"]), float(reader.attrs["high"])
        else:
            break
        at = reader
    return _Tail(node)


def _bias(
    net: Network,
    product: Node,
    add: Node,
    x: str,
    scales: NDArray[np.float32],
    rounds: bool,
) -> NDArray[np.int64] | None:
    """What is added to each channel, in integers of the scale of the sums."""
    (other,) = [v for v in add.inputs if v != x] or [x]
    known = quantised_constant(net, other)
    if known is not None:
        wide = known.scales * (known.numbers - known.zeros).astype(np.float32)
    elif other in net.constants and net.constants[other].dtype == np.float32:
        wide = net.constants[other]
    else:
        return None
    rank = len(net.types[add.name].shape)
    channel = rank - 1 if product.op in ("dense", "matmul") else 1
    own = (1,) * (rank - wide.ndim) + wide.shape
    if net.types[add.name].shape[channel] != len(scales) or own[channel] not in (1, len(scales)):
        return None
    if wide.size != own[channel] or net.types[add.name].shape != net.types[x].shape:
        return None
    if known is not None:
        close = np.abs(known.scales.reshape(-1) - scales) <= _CLOSE * scales
        if close.all():
            return np.broadcast_to((known.numbers - known.zeros).reshape(-1), scales.shape)
    if not rounds:
        return None
    whole = np.rint(np.broadcast_to(wide.reshape(-1), scales.shape) / scales)
    return whole.astype(np.int64) if (np.abs(whole) < 2**30).all() else None


# -- what is built ----------------------------------------------------------------------------


class _Integers:
    """Builds one product of bytes."""

    def __init__(self, b: Builder, match: _Match) -> None:
        self.b = b
        self.m = match
        self.data = b.renamed[match.data]
        if match.x.dtype == "int8":
            self.data = b.op("flip_sign", self.data)
        self.conv = match.product.op in CONVOLUTIONS
        self.groups = match.product.attrs.get("groups", 1)
        self.attrs = dict(match.product.attrs)
        self.fill = 0  # what is around the data of a convolution
        if isinstance(match.x, Computed):
            self.scale = b.renamed[match.x.scale]
            self.zero = self._unsigned(b.renamed[match.x.zero])
            if self.conv:
                self._surround()
        else:
            self.fill = match.x.unsigned.zero

    def built(self) -> str:
        """The value of the match's last node."""
        m, b = self.m, self.b
        signed = self._signed()
        zeros, wide = signed.zeros, self._matrix(signed.whole)
        acc = self._product(signed)
        if zeros.any():
            acc = b.op("add", acc, self._of_windows(zeros))
        if isinstance(m.x, Computed):
            of_zero = wide.sum(1) - wide.shape[1] * zeros
            factors = self._vector(m.scales), self._vector(of_zero.astype(np.int32))
            given = zip((self.scale, self.zero), factors, strict=True)
            own = (b.op("multiply", x, factor) for x, factor in given)
            return b.op("dequantize", acc, *own, name=m.last.name)
        init = m.bias - self.fill * wide.sum(1)
        of_sums = m.x.scale * m.scales
        if m.y is None:
            parts = self._vector(of_sums), self._vector((-init).astype(np.int32))
            return b.op("dequantize", acc, *parts, name=m.last.name)
        y = m.y
        zero = b.constant(np.asarray(y.zero, y.dtype), "zero")
        scale = (of_sums / y.scale).astype(np.float32)
        parts = self._vector(init.astype(np.int32)), self._vector(scale)
        fits = {"fits": True} if scale.max() <= FITS else {}
        out = b.op("requantize", acc, *parts, zero, name=m.last.name, **fits)
        low, high = (self._quantized(v, y) for v in (m.low, m.high))
        if (low, high) != integer_range(y.dtype):
            out = b.op("clip", out, low=low, high=high)
        for view in m.tail:
            out = b.op("reshape", out, name=view.name, shape=view.attrs["shape"])
        return out

    def _unsigned(self, zero: str) -> str:
        """A zero point as int32, of the same numbers as uint8."""
        wide = self.b.op("cast", zero, to="int32")
        if self.m.x.dtype == "uint8":
            return wide
        return self.b.op("add", wide, self.b.constant(np.asarray(FLIP, np.int32), "flip"))

    def _surround(self) -> None:
        """Put the computed zero point around the data, as far as the convolution pads them."""
        b, pads = self.b, self.attrs.get("pads", ())
        if not any(pads):
            return
        shape, rank = known_shape(b.shape(self.data)), len(pads) // 2
        before, after = (0, 0, *pads[:rank]), (0, 0, *pads[rank:])
        inside = np.ones((1, 1, *shape[2:]), np.bool_)
        mask = b.constant(np.pad(inside, list(zip(before, after, strict=True))), "inside")
        wide = b.op("pad", self.data, before=before, after=after, value=0)
        self.data = b.op("where", mask, wide, b.op("cast", self.zero, to="uint8"))
        self.attrs["pads"] = (0,) * len(pads)

    def _axis(self) -> int:
        """The dimension of the weights that output channels are."""
        product = self.m.product
        return 1 if product.op == "matmul" and not product.attrs.get("transpose_b") else 0

    def _signed(self) -> SignedWeights:
        m = self.m
        if self.groups > 1:
            return SignedWeights.grouped(m.w, m.zeros)
        outputs, inputs = self._matrix(m.w.numbers).shape
        few = 0 if self._windowed else few_inputs(inputs, outputs)
        along = 1 if self.conv or self._axis() == 0 else 0
        return SignedWeights.of(m.w, m.zeros, along, max(self._room(along), few))

    def _room(self, along: int) -> int:
        """Inputs that are put behind those of the data to fill the last group of terms."""
        return 0 if self.groups > 1 else -self.m.w.numbers.shape[along] % _GROUP

    @property
    def _windowed(self) -> bool:
        """Whether an output reads several points of the data, or some around them."""
        kernel = self.m.w.numbers.shape[2:] if self.conv else ()
        return math.prod(kernel) > 1 or any(self.attrs.get("pads", ()))

    def _product(self, w: SignedWeights) -> str:
        m, b = self.m, self.b
        attrs = {**self.attrs, "sums": "int32"}
        if room := self._room(w.along):
            w, again = w.filled(room)
            if again:
                self.data = b.op("concat", self.data, *map(self._input, again), axis=1)
            rank, rest = len(b.shape(self.data)), room - len(again)
            ends = tuple(rest if d == 1 else 0 for d in range(rank))
            if rest:
                self.data = b.op("pad", self.data, before=(0,) * rank, after=ends, value=0)
        weights = w.numbers
        if self.conv and self.fill:
            attrs["fill"] = self.fill
        op = m.product.op
        if op == "matmul":  # constants are kept as [out, in]
            weights = weights if m.product.attrs.get("transpose_b") else weights.T
            op, attrs = "dense", {"sums": "int32"}
        factor = b.constant(np.ascontiguousarray(weights), m.product.inputs[1])
        acc = b.op(op, self.data, factor, name=f"{m.product.name}_sums", **attrs)
        for k, lacks in w.more.items():
            one = b.op("cast", self._input(k, self.attrs.get("strides", ())), to="int32")
            acc = b.op("add", acc, b.op("multiply", one, self._vector(lacks.astype(np.int32))))
        return acc

    def _input(self, channel: int, strides: Shape = ()) -> str:
        """One channel of the data, at all points or those that a product reads."""
        n, _, *size = self.b.shape(self.data)
        steps = strides or (1,) * len(size)
        return self.b.op(
            "slice", self.data,
            begin=(0, channel, *(0 for _ in size)),
            size=(n, 1, *((x - 1) // s + 1 for x, s in zip(size, steps, strict=True))),
            stride=(1, 1, *steps),
        )  # fmt: skip

    def _of_windows(self, zeros: NDArray[np.int64]) -> str:
        """Zero points of weights times the sum of the data that each output reads, negated.

        What is around the data is taken from each of them, so that the padding adds nothing.
        """
        m, b = self.m, self.b
        wide = b.op("cast", self.data, to="int32")
        total = b.op("reduce_sum", wide, axes=(1,), keepdims=True)
        *_, channels = self._matrix(m.w.numbers).shape
        kernel = m.w.numbers.shape[2:] if self.conv else ()
        if self.fill:
            around = np.asarray(-self.fill * (channels // math.prod(kernel)), np.int32)
            total = b.op("add", total, b.constant(around, "around"))
        one = bool((zeros == zeros[0]).all())
        factors = self._vector((-zeros[:1] if one else -zeros).astype(np.int32))
        if one:  # a product for each point, not for each output
            total = b.op("multiply", total, factors)
        if self._windowed or set(self.attrs.get("strides", ())) - {1}:
            total = sums_of_windows(b, total, kernel, self.attrs)
        return total if one else b.op("multiply", total, factors)

    def _matrix(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Weights as a row for each output channel."""
        return np.moveaxis(weights, self._axis(), 0).reshape(len(self.m.scales), -1)

    def _vector(self, array: NDArray[Any]) -> str:
        """A number for each output channel, to be broadcast to the product."""
        after = len(self.m.shape) - 2 if self.conv else 0
        return self.b.constant(array.reshape(-1, *(1,) * after), "by_channel")

    @staticmethod
    def _quantized(value: float, y: Parameters) -> int:
        """What a limit of real numbers is as a quantised one."""
        low, high = integer_range(y.dtype)
        if np.isinf(value):
            return low if value < 0 else high
        whole = np.rint(np.float32(value) / y.scale) + np.float32(y.zero)
        return int(np.clip(whole, low, high))
