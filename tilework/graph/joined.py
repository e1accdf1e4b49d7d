"""First convolutions, whose few channels are no work for instructions on groups of terms.

The taps of a row of the kernel and their channels are neighbours in memory where the data are
padded, and channels are four. So they are one axis, of a convolution with a single channel::

    y[i, j] = sum over r, s, c:  x[2 * i + r, 2 * j + s, c] * w[r, s, c]      7 x 7 x 4 terms
            = sum over r, t:     x[2 * i + r, 8 * j + t] * w[r, t]            7 x 28

Bytes are put together by words (`tilework.ops.pixels`), also where windows stay what they are
(`words_of_pixels`): a kernel that stores three bytes a pixel has no vectors.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern
from tilework.index.extents import known_shape
from tilework.index.symbols import symbols_of
from tilework.ops.pixels import CHANNELS

_LEAST_TAPS = 4
"""Fewer pixels of bytes a row of the kernel are no gain."""


def join_windows(net: Network, types: Collection[str]) -> Network:
    """Give first convolutions an axis that instructions on groups of terms take.

    Args:
        net: after all passes.
        types: ``uint8`` for those of bytes; ``bfloat16`` for those of float32, which is stored so.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if not _direct(net, node) or symbols_of(net.types[node.inputs[0]].shape):
            return None
        data = None
        if not node.attrs.get("sums"):
            data = _padded(b, node, inputs[0]) if "bfloat16" in types else None
        elif node.op == "conv2d" and "uint8" in types:
            data = _as_words(b, net, node, inputs[0])
        return None if data is None else _joined(b, node, data, inputs[1])

    return rewrite(net, rule)


def words_of_pixels(net: Network) -> Network:
    """Put the bytes that first convolutions read together by words.

    rewrite:
        pad(x, C to 4)        ->  bytes_of(pixel_words(x)), of what a convolution reads
        concat(x, x[..., c])  ->  the same, with a channel once more
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        readers = net.consumers.get(node.name, ()) if node.op in ("pad", "concat") else ()
        first = any(_direct(net, r) and r.inputs[0] == node.name for r in readers)
        words = _words(b, net, node, inputs[0]) if first else None
        return None if words is None else b.op("bytes_of", words)

    return rewrite(net, rule)


def _direct(net: Network, node: Node) -> bool:
    """Whether a node is a convolution of few channels, constant weights and neighbouring taps."""
    if node.op not in ("conv2d", "conv3d") or node.attrs["layout"] != "NHWC":
        return False
    if node.attrs.get("groups", 1) > 1:
        return False
    shape = net.types[node.inputs[0]].shape
    few = not symbols_of(shape[-1:]) and shape[-1] <= CHANNELS
    return few and node.inputs[1] in net.constants and set(node.attrs["dilation"]) == {1}


def _as_words(b: Builder, net: Network, node: Node, data: str) -> str | None:
    """Bytes that are padded to four channels, from words, surrounded by what is around them."""
    pad = net.producer.get(node.inputs[0])
    if pad is None or not net.alone(pad.name):
        return None
    words = _words(b, net, pad, b.producer[data].inputs[0])
    if words is None:
        return None
    fill = bytes([int(node.attrs.get("fill", 0))] * CHANNELS)
    around = np.int32(int.from_bytes(fill, "little", signed=True))
    return b.op("bytes_of", _surrounded(b, words, node.attrs["pads"], around))


def _words(b: Builder, net: Network, pad: Node, data: str) -> str | None:
    """Words of the bytes that are padded to four channels, if they are such."""
    source, shape = net.types[pad.inputs[0]], net.types[pad.name].shape
    image = len(shape) == 4 and shape[-1] == CHANNELS
    if source.dtype != "uint8" or not image or not _turned(net, pad.inputs[0]):
        return None
    again = _again(net, pad)
    return None if again is None else b.op("pixel_words", data, again=again)


def _again(net: Network, node: Node) -> tuple[int, ...] | None:
    """Channels that stand behind those of a node's first input once more, if nothing else does."""
    if node.op == "pad":
        return None if any((*node.attrs["before"], *node.attrs["after"][:-1])) else ()
    if node.op != "concat":
        return None
    first, *others = node.inputs
    again = []
    for part in others:
        cut = net.producer.get(part)
        if cut is None or cut.op != "slice" or cut.inputs[0] != first:
            return None
        if net.types[part].shape != (*net.types[first].shape[:-1], 1):
            return None
        again.append(cut.attrs["begin"][-1])
    return tuple(again)


def _surrounded(b: Builder, x: str, pads: tuple[int, ...], around: np.generic) -> str:
    """A value in the midst of constants: a kernel that asks what is inside has no vectors."""
    maps = len(pads) // 2
    for axis in range(maps, 0, -1):
        before, after = pads[axis - 1], pads[maps + axis - 1]
        shape = known_shape(b.shape(x))
        ends = (
            [b.constant(np.full((*shape[:axis], n, *shape[axis + 1 :]), around), "around")]
            * (n > 0)
            for n in (before, after)
        )
        first, last = ends
        x = b.op("concat", *first, x, *last, axis=axis) if first or last else x
    return x


def _turned(net: Network, value: str) -> bool:
    """Whether channels of what a value is computed from, element by element, lie apart."""
    while (node := net.producer.get(value)) is not None:
        if node.op == "transpose":
            return bool(node.attrs["perm"][-1] == 1)
        if OPERATORS[node.op].pattern > Pattern.BROADCAST:
            return False
        value = node.inputs[0]
    return False


def _padded(b: Builder, node: Node, data: str) -> str | None:
    """Data of four channels, surrounded by zeros; None where there are as many already."""
    shape = known_shape(b.shape(data))
    more = CHANNELS - shape[-1]
    if not more:
        return None
    after = (*(0,) * (len(shape) - 1), more)
    four = b.op("pad", data, before=(0,) * len(shape), after=after, value=0.0)
    return _surrounded(b, four, node.attrs["pads"], np.float32(0))


def _joined(b: Builder, node: Node, data: str, weights: str) -> str:
    """The convolution of padded data of four channels."""
    attrs = {k: v for k, v in node.attrs.items() if k != "fill"}
    attrs["pads"] = (0,) * len(attrs["pads"])
    w = b.constants[weights]
    w = np.pad(w, [(0, 0)] * (w.ndim - 2) + [(0, CHANNELS - w.shape[-2]), (0, 0)])
    *others, taps, channels, out = w.shape
    if taps >= _LEAST_TAPS or not attrs.get("sums"):
        *before, columns, _ = b.shape(data)
        data = b.op("reshape", data, shape=(*before, columns * channels, 1))
        w = w.reshape(*others, taps * channels, 1, out)
        attrs["strides"] = (*attrs["strides"][:-1], attrs["strides"][-1] * channels)
    return b.op(
        node.op, data, b.constant(np.ascontiguousarray(w), weights), name=node.name, **attrs
    )
