"""Convert a whole network between NCHW and NHWC."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilework.graph.ir import Builder, Network, Node
from tilework.graph.shapes import BINARY, UNARY

_SHAPED = ("relu", "clip", "concat", "softmax", "pad", "batch_norm", "identity")
_ANY_LAYOUT = (*BINARY, *UNARY, *_SHAPED)

# permutations of feature maps and of weights, by the layout they lead to
_MAPS = {"NHWC": (0, 2, 3, 1), "NCHW": (0, 3, 1, 2)}
_WEIGHTS = {"NHWC": (2, 3, 1, 0), "NCHW": (3, 2, 0, 1)}
_OTHER = {"NHWC": "NCHW", "NCHW": "NHWC"}


def convert_layout(net: Network, layout: str = "NHWC") -> Network:
    """Run convolutions and pooling in ``layout``, and everything between them.

    Transposes remain only where the rest of the network insists on the old layout: at its inputs,
    its outputs, and around operators that mix dimensions.

    rewrite (to NHWC):
        conv2d(x, w[OIHW]; NCHW)  ->  transpose(conv2d(transpose(x), w[HWIO]; NHWC))
        op(transpose(x))          ->  transpose(op(x))    (and pairs of transposes cancel)
    """
    if all(n.attrs.get("layout", layout) == layout for n in net.nodes):
        return net
    return _Converter(net, layout).run()


class _Converter:
    """One forward sweep that keeps each value in either layout, or both, as its readers need."""

    def __init__(self, net: Network, layout: str) -> None:
        self.net = net
        self.layout = layout
        self.old = _OTHER[layout]
        self.b = Builder(net.name)
        self.plain: dict[str, str] = {}  # old value -> its new name, dimensions as declared
        self.converted: dict[str, str] = {}  # old value -> its new name, in the new layout
        self.wanted = _wanted(net, self.old)

    def run(self) -> Network:
        for name, t in self.net.inputs.items():
            self.plain[name] = self.b.input(name, t.shape, t.dtype)
        for name, array in self.net.constants.items():
            self.plain[name] = self.b.constant(array, name)
        for node in self.net.nodes:
            self._convert(node)
        return self.b.finish([self._as_plain(v) for v in self.net.outputs])

    def _as_plain(self, value: str) -> str:
        if value not in self.plain:
            self.plain[value] = self.b.op("transpose", self.converted[value], perm=_MAPS[self.old])
        return self.plain[value]

    def _as_converted(self, value: str) -> str:
        if value not in self.converted:
            perm = _MAPS[self.layout]
            if value in self.net.constants:
                array = self.net.constants[value]
                array = array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(perm)
                self.converted[value] = self.b.constant(np.ascontiguousarray(array), value)
            else:
                self.converted[value] = self.b.op("transpose", self.plain[value], perm=perm)
        return self.converted[value]

    def _convert(self, node: Node) -> None:
        if node.attrs.get("layout") == self.old:
            inputs = [self._as_converted(node.inputs[0])]
            inputs += [self._weight(w) for w in node.inputs[1:]]
            attrs = {**node.attrs, "layout": self.layout}
        elif self._follows(node):
            maps = node.inputs[:1] if node.op == "batch_norm" else node.inputs
            inputs = [self._as_converted(v) for v in maps]
            inputs += [self._as_plain(v) for v in node.inputs[len(maps) :]]
            attrs = self._permuted(node)
        else:
            inputs = [self._as_plain(v) for v in node.inputs]
            self.plain[node.name] = self.b.op(node.op, *inputs, name=node.name, **node.attrs)
            return
        self.converted[node.name] = self.b.op(node.op, *inputs, name=node.name, **attrs)

    def _follows(self, node: Node) -> bool:
        """Whether a layout-agnostic operator should run in the new layout."""
        if node.op not in _ANY_LAYOUT or len(self.net.types[node.name].shape) != 4:
            return False
        maps = [v for v in node.inputs if v not in self.net.constants]
        if not maps or any(len(self.net.types[v].shape) != 4 for v in maps):
            return False
        return node.name in self.wanted or any(v not in self.plain for v in maps)

    def _weight(self, value: str) -> str:
        perm = _WEIGHTS[self.layout]
        if value not in self.net.constants:
            return self.b.op("transpose", self._as_plain(value), perm=perm)
        weight = self.net.constants[value].transpose(perm)
        return self.b.constant(np.ascontiguousarray(weight), value)

    def _permuted(self, node: Node) -> dict[str, Any]:
        """The attributes that name dimensions, renamed for the new layout."""
        perm = _MAPS[self.layout]
        attrs = dict(node.attrs)
        if "axis" in attrs:
            attrs["axis"] = perm.index(attrs["axis"] % 4)
        for key in ("before", "after"):
            if key in attrs:
                attrs[key] = tuple(attrs[key][d] for d in perm)
        return attrs


def _wanted(net: Network, old: str) -> set[str]:
    """Values whose readers, directly or through layout-agnostic operators, are converted."""
    wanted: set[str] = set()
    for node in reversed(net.nodes):
        if node.attrs.get("layout") == old:
            wanted.add(node.inputs[0])
        elif node.op in _ANY_LAYOUT and node.name in wanted:
            wanted.update(v for v in node.inputs if v not in net.constants)
    return wanted
