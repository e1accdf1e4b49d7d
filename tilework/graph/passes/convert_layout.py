"""Convert a whole network from NCHW to NHWC."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilework.graph.ir import Builder, Network, Node
from tilework.graph.shapes import BINARY, UNARY

_LAYOUT_OPS = ("conv2d", "max_pool2d", "avg_pool2d", "global_avg_pool")
_ANY_LAYOUT = (*BINARY, *UNARY, "relu", "clip", "concat", "softmax", "pad")
TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


def convert_layout(net: Network) -> Network:
    """Run convolutions and pooling in NHWC, and everything between them.

    Transposes remain only where the rest of the network insists on NCHW: at its inputs, its
    outputs, and around operators that mix dimensions. A transpose that only moves extents of 1 is
    written as a reshape, which costs nothing.

    rewrite:
        conv2d(x, w[OIHW]; NCHW)  ->  transpose(conv2d(transpose(x), w[HWIO]; NHWC))
        op(transpose(x))          ->  transpose(op(x))    (and pairs of transposes cancel)
    """
    if all(n.attrs.get("layout") != "NCHW" for n in net.nodes):
        return net
    return _Converter(net).run()


class _Converter:
    """One forward sweep that keeps each value in either layout, or both, as its readers need."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.b = Builder(net.name)
        self.plain: dict[str, str] = {}  # old value -> its new name, dimensions as declared
        self.nhwc: dict[str, str] = {}  # old value -> its new name, as NHWC
        self.wanted = _wanted(net)

    def run(self) -> Network:
        for name, t in self.net.inputs.items():
            self.plain[name] = self.b.input(name, t.shape, t.dtype)
        for name, array in self.net.constants.items():
            self.plain[name] = self.b.constant(array, name)
        for node in self.net.nodes:
            self._convert(node)
        return self.b.finish([self.as_plain(v) for v in self.net.outputs])

    def as_plain(self, value: str) -> str:
        if value not in self.plain:
            self.plain[value] = _transpose(self.b, self.nhwc[value], TO_NCHW)
        return self.plain[value]

    def as_nhwc(self, value: str) -> str:
        if value not in self.nhwc:
            self.nhwc[value] = _transpose(self.b, self.plain[value], TO_NHWC)
        return self.nhwc[value]

    def _convert(self, node: Node) -> None:
        if node.attrs.get("layout") == "NCHW":
            inputs = [self.as_nhwc(node.inputs[0])]
            if node.op == "conv2d":
                inputs.append(self._weight(node.inputs[1]))
            attrs = {**node.attrs, "layout": "NHWC"}
            self.nhwc[node.name] = self.b.op(node.op, *inputs, name=node.name, **attrs)
        elif self._follows(node):
            inputs = [self.as_nhwc(v) for v in node.inputs]
            attrs = _permuted(node)
            self.nhwc[node.name] = self.b.op(node.op, *inputs, name=node.name, **attrs)
        else:
            inputs = [self.as_plain(v) for v in node.inputs]
            self.plain[node.name] = self.b.op(node.op, *inputs, name=node.name, **node.attrs)

    def _follows(self, node: Node) -> bool:
        """Whether a layout-agnostic operator should run in NHWC."""
        types = self.net.types
        if node.op not in _ANY_LAYOUT or any(len(types[v].shape) != 4 for v in node.inputs):
            return False
        converted = any(v in self.nhwc and v not in self.plain for v in node.inputs)
        return converted or node.name in self.wanted

    def _weight(self, value: str) -> str:
        perm = (2, 3, 1, 0)
        if value not in self.net.constants:
            return self.b.op("transpose", self.as_plain(value), perm=perm)
        weight = self.net.constants[value].transpose(perm)
        return self.b.constant(np.ascontiguousarray(weight), value)


def _wanted(net: Network) -> set[str]:
    """Values whose readers, directly or through layout-agnostic operators, run in NHWC."""
    wanted: set[str] = set()
    for node in reversed(net.nodes):
        if node.attrs.get("layout") == "NCHW":
            wanted.add(node.inputs[0])
        elif node.op in _ANY_LAYOUT and node.name in wanted:
            wanted.update(v for v in node.inputs if v not in net.constants)
    return wanted


def _permuted(node: Node) -> dict[str, Any]:
    """The attributes that name dimensions, renamed for NHWC."""
    attrs = dict(node.attrs)
    if "axis" in attrs:
        attrs["axis"] = TO_NHWC.index(attrs["axis"] % 4)
    for key in ("before", "after"):
        if key in attrs:
            attrs[key] = tuple(attrs[key][d] for d in TO_NHWC)
    return attrs


def _transpose(b: Builder, value: str, perm: tuple[int, ...]) -> str:
    if value in b.constants:
        return b.constant(np.ascontiguousarray(b.constants[value].transpose(perm)), value)
    return b.op("transpose", value, perm=perm)
