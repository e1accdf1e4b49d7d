"""Transposed convolutions become convolutions by phases."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.transposed import TRANSPOSED
from tilework.index.extents import known_shape
from tilework.ops.transposed import phase_weights_of


def split_phases(net: Network) -> Network:
    """Replace transposed convolutions by what computes them without inserted zeros.

    rewrite:
        conv_transpose2d(x, w; strides 1)  ->  conv2d(x, turned w)
        conv_transpose2d(x, w; strides s)  ->  merge(phase_conv2d(x, phases of w))

    with merge the reshape [N, H, s, W, s, C] to [N, H*s, W*s, C], and a slice of it where the
    output's extents are no multiples of s. Channels come last.
    """
    if not any(n.op in TRANSPOSED for n in net.nodes):
        return net
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op not in TRANSPOSED:
        return None
    return _stride_one(b, node, inputs) or _by_phases(b, node, inputs)


def _stride_one(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """A transposed convolution of stride 1 and constant weights is an ordinary one."""
    a, (x, w) = node.attrs, inputs
    rank = len(a["strides"])
    if max(a["strides"]) > 1 or w not in b.constants:
        return None
    reach = [d * (k - 1) for d, k in zip(a["dilation"], b.shape(w), strict=False)]
    before = [m - p for m, p in zip(reach, a["pads"], strict=False)]
    after = [
        m - p + o for m, p, o in zip(reach, a["pads"][rank:], a["output_padding"], strict=True)
    ]
    if min(*before, *after) < 0:
        return None
    groups = a.get("groups", 1)
    *kernel, co, ci = known_shape(b.shape(w))
    turned = b.constants[w][(slice(None, None, -1),) * rank]
    apart = turned.reshape(*kernel, co, groups, ci // groups)
    order = (*range(rank), rank + 2, rank + 1, rank)
    weight = apart.transpose(*order).reshape(*kernel, ci // groups, groups * co)
    return b.op(
        f"conv{rank}d",
        x,
        b.constant(np.ascontiguousarray(weight), w),
        name=node.name,
        strides=a["strides"],
        pads=(*before, *after),
        dilation=a["dilation"],
        layout="NHWC",
        **({"groups": groups} if groups > 1 else {}),
    )


def _by_phases(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    a, (x, w) = node.attrs, inputs
    groups, strides = a.get("groups", 1), tuple(a["strides"])
    rank = len(strides)
    (n, *size, c), (co, ci) = b.shape(x), b.shape(w)[-2:]
    kind = "plain" if groups == 1 else "depthwise" if groups == ci and co == 1 else "grouped"
    lead = tuple(a["pads"][:rank])
    shared = {"strides": strides, "lead": lead, "kind": kind}
    if w in b.constants:
        array = phase_weights_of(b.constants[w], strides, lead, a["dilation"], groups, kind)
        weight = b.constant(array, w)
    else:
        more = {"dilation": a["dilation"], "groups": groups}
        weight = b.op("phase_weights", w, name=f"{w}_phases", **shared, **more)
    if kind == "grouped":
        x = b.op("reshape", x, shape=(n, *size, groups, c // groups))
    out = tuple(
        (m - 1) * s + d * (k - 1) + 1 - a["pads"][i] - a["pads"][i + rank] + o
        for i, (m, s, d, k, o) in enumerate(
            zip(size, strides, a["dilation"], b.shape(w), a["output_padding"], strict=False)
        )
    )
    positions = tuple(-(-o // s) for o, s in zip(out, strides, strict=True))
    y = b.op(f"phase_conv{rank}d", x, weight, name=f"{node.name}_phases", size=positions, **shared)
    full = tuple(p * s for p, s in zip(positions, strides, strict=True))
    y = b.op("reshape", y, name=node.name, shape=(n, *full, groups * co))
    if full == out:
        return y
    ends = (n, *out, groups * co)
    zeros, ones = (0,) * len(ends), (1,) * len(ends)
    return b.op("slice", y, name=node.name, begin=zeros, size=ends, stride=ones)
