"""The ONNX graph under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilework.graph.ir import Network, Node
from tilework.graph.onnx.types import element_number


class Writer:
    """Collects the nodes and initializers of one ONNX graph."""

    def __init__(self, net: Network, outputs: Sequence[str]) -> None:
        self.net = net
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        # the layout conversion may have moved an output's name to an inner value: swap them
        self.names = {v: f"{v}_inner" if v in outputs else v for v in net.types}
        for new, old in zip(net.outputs, outputs, strict=True):
            self.names[new] = new if new in net.inputs else old
        for name, array in net.constants.items():
            self.constant(self.names[name], array)

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add an initializer; returns its name."""
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> None:
        """Append a node with one output."""
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attrs))

    def cast(self, x: str, dtype: str, output: str) -> str:
        """Append a conversion to another element type; returns its output."""
        self.add("Cast", [x], output, to=element_number(dtype))
        return output


Write = Callable[[Writer, Node, Sequence[str], str], None]


def simple(op: str, *attrs: str) -> Write:
    """An operator that ONNX has under another name; ``attrs`` are passed on as they are."""

    def write(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
        w.add(op, inputs, out, **{a: node.attrs[a] for a in attrs})

    return write
