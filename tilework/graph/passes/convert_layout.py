"""Convert a whole network between NCHW and NHWC."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node
from tilework.graph.operators import OPERATORS, maps_order, weights_order

_OTHER = {"NHWC": "NCHW", "NCHW": "NHWC"}


def convert_layout(net: Network, layout: str = "NHWC") -> Network:
    """Run convolutions and pooling in ``layout``, and everything between them.

    The layouts stand for channels last and first, whatever the number of spatial axes.

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
        self.constants: dict[tuple[str, int], str] = {}  # (old constant, rank) -> the same
        self.wanted = _wanted(net, self.old)

    def run(self) -> Network:
        for name, t in self.net.inputs.items():
            self.plain[name] = self.b.input(name, t.shape, t.dtype)
        for name, array in self.net.constants.items():
            self.plain[name] = self.b.constant(array, name)
        for node in self.net.nodes:
            self._convert(node)
        return self.b.finish([self._as_plain(v) for v in self.net.outputs], self.net.names)

    def _as_plain(self, value: str) -> str:
        if value not in self.plain:
            perm = maps_order(len(self.net.types[value].shape), self.old)
            self.plain[value] = self.b.op("transpose", self.converted[value], perm=perm)
        return self.plain[value]

    def _as_converted(self, value: str, rank: int) -> str:
        perm = maps_order(rank, self.layout)
        if value in self.net.constants:
            if (value, rank) not in self.constants:
                array = self.net.constants[value]
                array = array.reshape((1,) * (rank - array.ndim) + array.shape).transpose(perm)
                name = self.b.constant(np.ascontiguousarray(array), value)
                self.constants[value, rank] = name
            return self.constants[value, rank]
        if value not in self.converted:
            self.converted[value] = self.b.op("transpose", self.plain[value], perm=perm)
        return self.converted[value]

    def _convert(self, node: Node) -> None:
        rank = len(self.net.types[node.name].shape)
        if node.attrs.get("layout") == self.old:
            inputs = [self._as_converted(node.inputs[0], rank)]
            inputs += [self._weight(w) for w in node.inputs[1:]]
            attrs = {**node.attrs, "layout": self.layout}
        elif self._follows(node):
            maps = _maps(node)
            inputs = [self._as_converted(v, rank) for v in maps]
            inputs += [self._as_plain(v) for v in node.inputs[len(maps) :]]
            permute = OPERATORS[node.op].permute
            assert permute is not None
            attrs = permute(node.attrs, maps_order(rank, self.layout))
        else:
            inputs = [self._as_plain(v) for v in node.inputs]
            self.plain[node.name] = self.b.op(node.op, *inputs, name=node.name, **node.attrs)
            return
        self.converted[node.name] = self.b.op(node.op, *inputs, name=node.name, **attrs)

    def _follows(self, node: Node) -> bool:
        """Whether a layout-agnostic operator should run in the new layout."""
        rank = len(self.net.types[node.name].shape)
        if OPERATORS[node.op].permute is None or rank < 3:
            return False
        maps = [v for v in _maps(node) if v not in self.net.constants]
        if not maps or any(len(self.net.types[v].shape) != rank for v in maps):
            return False
        return node.name in self.wanted or any(v not in self.plain for v in maps)

    def _weight(self, value: str) -> str:
        perm = weights_order(len(self.net.types[value].shape), self.layout)
        if value not in self.net.constants:
            return self.b.op("transpose", self._as_plain(value), perm=perm)
        # not a copy: weights are read once more, when they are packed
        return self.b.constant(self.net.constants[value].transpose(perm), value)


def _maps(node: Node) -> tuple[str, ...]:
    """The inputs whose dimensions change places with those of the result."""
    return node.inputs[: OPERATORS[node.op].permuted_inputs]


def _wanted(net: Network, old: str) -> set[str]:
    """Values whose readers, directly or through layout-agnostic operators, are converted."""
    wanted: set[str] = set()
    for node in reversed(net.nodes):
        if node.attrs.get("layout") == old:
            wanted.add(node.inputs[0])
        elif OPERATORS[node.op].permute is not None and node.name in wanted:
            wanted.update(v for v in node.inputs if v not in net.constants)
    return wanted
