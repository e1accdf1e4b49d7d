"""Networks: where they come from, how they are simplified, and what there is to tune in them."""

from __future__ import annotations

from os import PathLike

from tilework.graph import zoo
from tilework.graph.extract import extract_tasks
from tilework.graph.ir import Builder, Network, Node, ValueType
from tilework.graph.plan import Call, Plan, plan


def from_onnx(
    path: str | PathLike[str], shapes: dict[str, tuple[int, ...]] | None = None
) -> Network:
    """Read an ONNX file; see `tilework.graph.onnx.importer.from_onnx`."""
    from tilework.graph.onnx.importer import from_onnx as load  # onnx is slow to import

    return load(path, shapes)


__all__ = [
    "Builder", "Call", "Network", "Node", "Plan", "ValueType", "extract_tasks", "from_onnx",
    "plan", "zoo",
]  # fmt: skip
