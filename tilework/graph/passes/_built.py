"""What a pass has built so far."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node


class Built:
    """The nodes of a network under construction, by the value that each defines."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def node(self, b: Builder, value: str, *ops: str) -> Node | None:
        """The node that defines ``value``, if it is one of ``ops``."""
        for node in b.nodes[len(self._nodes) :]:
            self._nodes[node.name] = node
        producer = self._nodes.get(value)
        return producer if producer is not None and producer.op in ops else None

    def unviewed(self, b: Builder, value: str) -> str:
        """What ``value`` is of, seen in other shapes."""
        while (view := self.node(b, value, "reshape")) is not None:
            value = view.inputs[0]
        return value


def alone(net: Network, value: str) -> bool:
    """Whether one node reads ``value``, once, and nobody else does."""
    readers = net.consumers.get(value, ())
    return len(readers) == 1 and readers[0].inputs.count(value) == 1 and value not in net.outputs
