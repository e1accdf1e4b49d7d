"""Convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
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
from tilework.graph.onnx.convert.normal import channels
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import room, value
from tilework.graph.operators import MAX_ELEMENTS
from tilework.graph.operators.windows import POSITIONS, ceil_pads, same_pads
from tilework.index.extents import Extent, known, known_shape
from tilework.index.strides import row_major
from tilework.index.symbols import is_static


def window(
    a: dict[str, Any], size: Sequence[Extent], kernel: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides, pads and dilation of a sliding window, with automatic padding made explicit."""
    rank = len(size)
    strides = tuple(a.get("strides", (1,) * rank))
    dilation = tuple(a.get("dilations", (1,) * rank))
    pads = list(a.get("pads", (0,) * (2 * rank)))
    if not len(strides) == len(dilation) == len(kernel) == rank or len(pads) != 2 * rank:
        raise Unsupported(f"kernel, strides, dilations and pads do not fit {rank} spatial axes")
    if min(*strides, *dilation, *kernel) < 1:
        raise Unsupported("kernel, strides and dilation must be positive")
    mode = a.get("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        for d in range(rank):
            reach = dilation[d] * (kernel[d] - 1) + 1
            pads[d], pads[d + rank] = same_pads(size[d], reach, strides[d], mode == "SAME_UPPER")
    elif mode != "NOTSET":
        raise Unsupported(f"unknown auto_pad '{mode}'")
    if min(pads) < 0:
        raise Unsupported("negative pads are not supported")
    return strides, tuple(pads), dilation


def conv(c: OnnxContext, node: NodeProto) -> str:
    """A convolution, and its bias if it has one."""
    x, w = (c.value(i) for i in node.input[:2])
    return convolution(c, attributes(node), x, w, optional(node, 2), node.output[0])


def convolution(
    c: OnnxContext,
    a: dict[str, Any],
    data: str,
    weights: str,
    bias: str,
    name: str,
    **more: Any,
) -> str:
    """A convolution with the attributes of ONNX's ``Conv``.

    Args:
        data, weights: values [N, C, ...] and [M, C / groups, ...].
        bias: ONNX name of a vector [M]; empty without one.
        name: of the result.
        more: further attributes of the network's operator.
    """
    x, w = c.b.shape(data), c.b.shape(weights)
    rank = _spatial_rank(x)
    if len(w) != len(x):
        raise Unsupported(f"the weights {list(w)} do not fit {rank} spatial axes")
    if tuple(a.get("kernel_shape", w[2:])) != tuple(w[2:]):
        raise Unsupported(f"kernel_shape contradicts the weights {list(w)}")
    groups = int(a.get("group", 1))
    strides, pads, dilation = window(a, x[2:], known_shape(w[2:]))
    y = c.op(
        f"conv{rank}d",
        data,
        weights,
        name=name,
        strides=strides,
        pads=pads,
        dilation=dilation,
        layout="NCHW",
        **({"groups": groups} if groups != 1 else {}),
        **more,
    )
    return _biased(c, y, bias, rank, name)


def _conv_transpose(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x, w = c.shape(node.input[0]), c.sizes(node.input[1])
    rank = _spatial_rank(x)
    if len(w) != len(x):
        raise Unsupported(f"the weights {list(w)} do not fit {rank} spatial axes")
    strides = tuple(a.get("strides", (1,) * rank))
    dilation = tuple(a.get("dilations", (1,) * rank))
    more = list(a.get("output_padding", (0,) * rank))
    pads = list(a.get("pads", (0,) * (2 * rank)))
    mode = a.get("auto_pad", "NOTSET")
    shape = a.get("output_shape")
    if mode in ("SAME_UPPER", "SAME_LOWER") and shape is None:
        shape = [n * s for n, s in zip(known_shape(x[2:]), strides, strict=True)]
    elif mode == "VALID":
        pads = [0] * (2 * rank)
    elif mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        raise Unsupported(f"unknown auto_pad '{mode}'")
    for d, n in enumerate(shape[-rank:] if shape is not None else ()):
        whole = strides[d] * (known(x[2 + d]) - 1) + more[d] + (w[2 + d] - 1) * dilation[d] + 1
        total = max(whole - n, 0)
        if "output_shape" in a:  # SAME only takes away, as in the standard's inference of shapes
            more[d] += max(n - whole, 0)
        small, large = total // 2, total - total // 2
        pads[d], pads[d + rank] = (small, large) if mode == "SAME_UPPER" else (large, small)
    if min(pads, default=0) < 0:
        raise Unsupported("negative pads are not supported")
    y = c.op(
        f"conv_transpose{rank}d",
        c.value(node.input[0]),
        c.value(node.input[1]),
        name=node.output[0],
        strides=strides,
        pads=tuple(pads),
        dilation=dilation,
        output_padding=tuple(more),
        groups=int(a.get("group", 1)),
        layout="NCHW",
    )
    return _biased(c, y, optional(node, 2), rank, node.output[0])


def _spatial_rank(shape: Sequence[Extent]) -> int:
    """Number of spatial axes of feature maps [N, C, ...]."""
    if not 3 <= len(shape) <= 5:
        raise Unsupported(f"only one to three spatial axes are supported, not {list(shape)}")
    return len(shape) - 2


def _biased(c: OnnxContext, y: str, bias: str, rank: int, name: str) -> str:
    """``y`` plus a vector of channels, if there is one, along the second dimension."""
    if not bias:
        return y
    return c.op("add", y, channels(c, c.value(bias), rank + 2), name=f"{name}_biased")


def _pool(op: str, c: OnnxContext, node: NodeProto) -> Result:
    a = attributes(node)
    x, name = c.value(node.input[0]), node.output[0]
    if op == "avg_pool":
        return averages(c, a, x, name)
    rank, _, dilation, common = _pooling(c, a, x)
    if op == "lp_pool":
        p = int(a.get("p", 2))
        return c.op(f"{op}{rank}d", x, name=name, dilation=dilation, p=p, **common)
    y = c.op(f"{op}{rank}d", x, name=name, dilation=dilation, **common)
    if len(node.output) < 2 or not node.output[1]:
        return y
    columns = bool(a.get("storage_order", 0))
    more = {"dilation": dilation, "columns_first": columns}
    return [y, c.op(f"max_pool_positions{rank}d", x, name=node.output[1], **more, **common)]


def averages(c: OnnxContext, a: dict[str, Any], data: str, name: str) -> str:
    """The averages of windows, with the attributes of ONNX's ``AveragePool``.

    Args:
        data: the value [N, C, ...].
        name: of the result.
    """
    rank, pads, dilation, common = _pooling(c, a, data)
    count, whole = bool(a.get("count_include_pad", 0)), common["pads"]
    more: dict[str, Any] = {"dilation": dilation} if max(dilation) > 1 else {}
    if count and whole != pads:
        ends = zip(whole[rank:], pads[rank:], strict=True)
        more["surplus"] = tuple(w - p for w, p in ends)
    return c.op(f"avg_pool{rank}d", data, name=name, count_include_pad=count, **more, **common)


def _pooling(
    c: OnnxContext, a: dict[str, Any], data: str
) -> tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Number of spatial axes, pads as they are given, dilation, and the operator's attributes."""
    shape = c.b.shape(data)
    rank, kernel = _spatial_rank(shape), tuple(a["kernel_shape"])
    strides, pads, dilation = window(a, shape[2:], kernel)
    whole = pads
    of_runs = a.get("auto_pad", "NOTSET").startswith("SAME") and not is_static(shape[2:])
    if a.get("ceil_mode", 0) and not of_runs:  # there what is behind is enough for all windows
        whole = ceil_pads(shape[2:], kernel, strides, pads, dilation)
    common = {"kernel": kernel, "strides": strides, "pads": whole, "layout": "NCHW"}
    return rank, pads, dilation, common


def _global_lp_pool(c: OnnxContext, node: NodeProto) -> str:
    p = int(attributes(node).get("p", 2))
    shape = c.shape(node.input[0])
    rank = _spatial_rank(shape)
    x, name = c.value(node.input[0]), node.output[0]
    if p in (1, 2):
        axes = tuple(range(2, len(shape)))
        return c.op(f"reduce_l{p}", x, name=name, axes=axes, keepdims=True)
    return c.op(f"lp_pool{rank}d", x, name=name, p=p, **_whole(shape))


def _global_pool(op: str, c: OnnxContext, node: NodeProto) -> str:
    shape = c.shape(node.input[0])
    rank = _spatial_rank(shape)
    x, name = c.value(node.input[0]), node.output[0]
    if op == "global_avg_pool":
        return c.op(op, x, name=name, layout="NCHW")
    return c.op(f"max_pool{rank}d", x, name=name, **_whole(shape))


def _whole(shape: Sequence[Extent]) -> dict[str, Any]:
    """A window over all positions of feature maps [N, C, ...]."""
    ones, pads = (1,) * (len(shape) - 2), (0,) * (2 * len(shape) - 4)
    window = {"kernel": known_shape(shape[2:]), "strides": ones, "pads": pads, "dilation": ones}
    return {**window, "layout": "NCHW"}


def _max_unpool(c: OnnxContext, node: NodeProto) -> str:
    """Zeros, and each element at the place that its index says; of several the last."""
    a = attributes(node)
    x, places = (value(c, i) for i in node.input[:2])
    rank = _spatial_rank(x.shape)
    kernel = a["kernel_shape"]
    strides, pads = a.get("strides", (1,) * rank), a.get("pads", (0,) * (2 * rank))
    if not len(kernel) == len(strides) == rank or len(pads) != 2 * rank:
        raise Unsupported(f"kernel, strides and pads do not fit {rank} spatial axes")
    around = zip(x.sizes[2:], kernel, strides, pads[:rank], pads[rank:], strict=True)
    size = [(n - 1) * s + k - first - last for n, k, s, first, last in around]
    shape = (*x.sizes[:2], *size)
    if optional(node, 2):
        shape = tuple(c.ints(node.input[2], "its output_shape"))
    if len(shape) != rank + 2 or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        raise Unsupported(f"its result of shape {list(shape)} is empty or too large")
    if _tiled(c, places.name, kernel, strides, shape):
        factors = (1, 1, *kernel)
        x, places = x.op("repeat", factors=factors), places.op("repeat", factors=factors)
        rest = tuple(n - m for n, m in zip(shape, x.sizes, strict=True))
        if any(rest):
            pads = {"before": (0,) * len(shape), "after": rest}
            x, places = x.op("pad", **pads, value=0.0), places.op("pad", **pads, value=-1)
        own = places.constant(0)
        for d, (n, stride) in enumerate(zip(shape, row_major(shape), strict=True)):
            room(c, n)
            along = np.arange(n) * stride
            own = own + along.reshape([-1 if e == d else 1 for e in range(len(shape))])
        return x.where(places.op("equal", own), 0).name
    flat = x.constant([0]).op("expand", shape=(math.prod(shape),))
    y = flat.op("scatter_elements", places.reshape(-1), x.reshape(-1), axis=0, reduction="none")
    return y.reshape(*shape).name


def _tiled(
    c: OnnxContext,
    places: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    shape: Sequence[int],
) -> bool:
    """Whether the places are those of a MaxPool whose windows tile maps of the result's shape.

    Then each element of the result asks its own window alone, and not all that are written.
    """
    producer = c.b.node(places, *POSITIONS)
    if producer is None:
        return False
    a = producer.attrs
    plain = not any(a["pads"]) and max(a["dilation"]) == 1 and not a["columns_first"]
    same = tuple(a["kernel"]) == tuple(a["strides"]) == tuple(kernel) == tuple(strides)
    return plain and same and c.b.shape(producer.inputs[0]) == tuple(shape)


CONVERTERS: dict[str, Converter] = {
    "AveragePool": partial(_pool, "avg_pool"),
    "Conv": conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": partial(_global_pool, "global_avg_pool"),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": partial(_global_pool, "max_pool"),
    "LpPool": partial(_pool, "lp_pool"),
    "MaxPool": partial(_pool, "max_pool"),
    "MaxUnpool": _max_unpool,
}
