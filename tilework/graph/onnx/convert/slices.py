"""ONNX operators that keep, drop, repeat or surround elements by their position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.numbers import Known, tensor_of
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.operators import broadcast
from tilework.index.extents import Extent, known
from tilework.index.symbols import certain


def normal(axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        Unsupported: there is no such dimension.
    """
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} does not exist: there are {rank} dimensions")
    return int(axis) % rank


def sliced(
    c: OnnxContext,
    value: str,
    begin: Sequence[Extent],
    size: Sequence[Extent],
    stride: Sequence[int],
    name: str | None = None,
) -> str:
    """Elements of a value of the network; the value itself where that is all of them."""
    if tuple(size) == c.b.shape(value) and all(
        b == 0 for b, n in zip(begin, size, strict=True) if n not in (0, 1)
    ):
        return value
    attrs = {"begin": tuple(begin), "size": tuple(size), "stride": tuple(stride)}
    return c.op("slice", value, name=name, **attrs)


def along(c: OnnxContext, value: str, axis: int, begin: Extent, size: Extent, name: str) -> str:
    """``size`` neighbouring entries of one dimension."""
    shape = c.b.shape(value)
    first: list[Extent] = [0] * len(shape)
    first[axis] = begin
    extents = [*shape[:axis], size, *shape[axis + 1 :]]
    return sliced(c, value, first, extents, [1] * len(shape), name)


def _slice(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    if c.opset < 10:
        starts, ends, axes, steps = a["starts"], a["ends"], a.get("axes"), None
    else:
        starts = c.extents(node.input[1], "its starts")
        ends = c.extents(node.input[2], "its ends")
        axes = c.ints(node.input[3], "its axes") if optional(node, 3) else None
        steps = c.ints(node.input[4], "its steps") if optional(node, 4) else None
    axes = [normal(d, len(shape)) for d in (range(len(starts)) if axes is None else axes)]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(set(axes)) < len(axes):
        raise Unsupported("its starts, ends, axes and steps do not match")
    if 0 in steps:
        raise Unsupported("a step is 0")
    begin: list[Extent] = [0] * len(shape)
    size, stride = list(shape), [1] * len(shape)
    for d, start, end, step in zip(axes, starts, ends, steps, strict=True):
        begin[d], size[d] = _kept(shape[d], start, end, step)
        stride[d] = step
    return sliced(c, x, begin, size, stride, node.output[0])


def _kept(extent: Extent, start: Extent, end: Extent, step: int) -> tuple[Extent, Extent]:
    """The first element, and the number of elements, of a slice of a dimension.

    Raises:
        Undecided: they are another formula at some points than at others.
    """
    if isinstance(extent, int) and isinstance(start, int) and isinstance(end, int):
        kept = range(extent)[slice(start, end, step)]
        return kept.start, len(kept)
    least, most = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (_within(n, extent, least, most) for n in (start, end))
    way = last - first if step > 0 else first - last
    return first, 0 if way <= 0 else -(-way // abs(step))


def _within(place: Extent, extent: Extent, least: Extent, most: Extent) -> Extent:
    """A start or an end of a slice, which counts from the end where it is negative."""
    if place < 0:
        place = place + extent
        return least if place < least else place
    return most if certain(lambda: most <= place) or not place <= most else place


def _split(c: OnnxContext, node: NodeProto) -> Result:
    a = attributes(node)
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    axis = normal(a.get("axis", 0), len(shape))
    sizes = a.get("split")
    if optional(node, 1):
        sizes = c.extents(node.input[1], "the sizes of its parts")
    if sizes is None:
        parts = a.get("num_outputs", len(node.output))
        if c.opset < 18 and shape[axis] % parts != 0:
            raise Unsupported(f"extent {shape[axis]} cannot be split in {parts} equal parts")
        whole = -(-shape[axis] // parts)
        sizes = [whole] * (parts - 1) + [shape[axis] - whole * (parts - 1)]
    if sum(sizes) != shape[axis] or len(sizes) != len(node.output):
        raise Unsupported(f"its parts {list(sizes)} do not make up extent {shape[axis]}")
    starts = accumulate([0, *sizes])
    return [
        along(c, x, axis, start, size, out) if out else None
        for start, size, out in zip(starts, sizes, node.output, strict=False)
    ]


def _tile(c: OnnxContext, node: NodeProto) -> str:
    x = c.value(node.input[0])
    repeats = c.extents(node.input[1], "its repeats")
    if len(repeats) != len(c.b.shape(x)):
        raise Unsupported(f"{len(repeats)} repeats do not fit {list(c.b.shape(x))}")
    if any(n < 0 for n in repeats):
        raise Unsupported(f"repeats of {repeats} make no sense")
    return c.op("tile", x, name=node.output[0], factors=tuple(repeats))


def _expand(c: OnnxContext, node: NodeProto) -> str:
    x = c.value(node.input[0])
    own, wanted = c.b.shape(x), c.extents(node.input[1], "its shape")
    shape = broadcast((own, tuple(wanted)))
    if len(own) < len(shape):
        x = c.op("reshape", x, shape=(1,) * (len(shape) - len(own)) + own)
    if c.b.shape(x) == shape:
        return x
    return c.op("expand", x, name=node.output[0], shape=shape)


def _pad(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    mode = a.get("mode", "constant")
    x = c.value(node.input[0])
    rank = len(c.b.shape(x))
    pads, value = a.get("pads"), a.get("value", 0.0)
    if optional(node, 1):
        pads = c.extents(node.input[1], "the padding")
    if optional(node, 2):
        value = c.array(node.input[2], "the padding value").item()
    axes = list(range(rank))
    if optional(node, 3):
        axes = [normal(d, rank) for d in c.ints(node.input[3], "its axes")]
    if pads is None or len(pads) != 2 * len(axes):
        raise Unsupported("the padding does not match the input")
    before: list[Extent] = [0] * rank
    after: list[Extent] = [0] * rank
    for i, d in enumerate(axes):
        before[d], after[d] = pads[i], pads[i + len(axes)]
    return _padded(c, x, before, after, node.output[0], mode, value)


def _padded(
    c: OnnxContext,
    x: str,
    before: Sequence[Extent],
    after: Sequence[Extent],
    name: str,
    mode: str = "constant",
    value: Any = 0,
) -> str:
    """``x`` with elements added around it; negative numbers take some away."""
    shape = c.b.shape(x)
    begin = [-n if n < 0 else 0 for n in before]
    size = [
        n + (b if b < 0 else 0) + (a if a < 0 else 0)
        for n, b, a in zip(shape, before, after, strict=True)
    ]
    x = sliced(c, x, begin, size, [1] * len(shape))
    attrs: dict[str, Any] = {
        "before": tuple(0 if n < 0 else n for n in before),
        "after": tuple(0 if n < 0 else n for n in after),
    }
    if all(n == 0 for n in (*attrs["before"], *attrs["after"])):
        return x
    if mode == "constant":
        kind = np.dtype(c.b.types[x].dtype) if c.b.types[x].dtype != "bfloat16" else None
        plain = float(value) if kind is None or kind.kind == "f" else kind.type(value).item()
        return c.op("pad", x, name=name, **attrs, value=plain)
    return c.op("pad_self", x, name=name, **attrs, mode=mode)


def _center_crop_pad(c: OnnxContext, node: NodeProto) -> str:
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    axes = [normal(d, len(shape)) for d in attributes(node).get("axes", range(len(shape)))]
    wanted = c.ints(node.input[1], "its shape")
    if len(wanted) != len(axes):
        raise Unsupported(f"{len(wanted)} extents for {len(axes)} axes")
    before, after = [0] * len(shape), [0] * len(shape)
    for d, n in zip(axes, wanted, strict=True):
        more = n - known(shape[d])
        before[d] = more // 2 if more > 0 else -(-more // 2)
        after[d] = more - before[d]
    return _padded(c, x, before, after, node.output[0])


def _size(c: OnnxContext, node: NodeProto) -> Known:
    return tensor_of([math.prod(c.shape(node.input[0]))], (), "int64")


def _blocks(op: str, c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    attrs = {"block": a["blocksize"], "mode": a.get("mode", "DCR"), "layout": "NCHW"}
    return c.op(op, c.value(node.input[0]), name=node.output[0], **attrs)


def _col2im(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    image = c.extents(node.input[1], "the image's shape")
    block = c.ints(node.input[2], "the block's shape")
    rank = len(image)
    attrs = {
        "strides": tuple(a.get("strides", (1,) * rank)),
        "pads": tuple(a.get("pads", (0,) * (2 * rank))),
        "dilation": tuple(a.get("dilations", (1,) * rank)),
    }
    if [len(block), *map(len, attrs.values())] != [rank, rank, 2 * rank, rank]:
        raise Unsupported(f"block, strides, pads and dilations do not fit {rank} dimensions")
    x = c.value(node.input[0])
    return c.op("col2im", x, name=node.output[0], image=tuple(image), block=tuple(block), **attrs)


CONVERTERS: dict[str, Converter] = {
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "DepthToSpace": partial(_blocks, "depth_to_space"),
    "Expand": _expand,
    "Pad": _pad,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": partial(_blocks, "space_to_depth"),
    "Split": _split,
    "Tile": _tile,
}
