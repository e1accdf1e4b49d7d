"""Graphs of PyTorch's core operators (ATen), as `torch.export` and AOTAutograd write them.

`decompositions` says which operators a program has to be brought to, `walk` makes a network of
them with the converters in `convert`. Importing this package imports no torch.
"""

from __future__ import annotations

from tilework.graph.aten.context import Unsupported
from tilework.graph.aten.sizes import ROOMS, Sizes
from tilework.graph.aten.walk import Computed, Passed, Stays, Translation, from_graph, memory_order

__all__ = [
    "ROOMS", "Computed", "Passed", "Sizes", "Stays", "Translation", "Unsupported", "from_graph",
    "memory_order",
]  # fmt: skip
