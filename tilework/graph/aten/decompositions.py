"""Which operators PyTorch writes out in simpler ones before a graph is translated."""

from __future__ import annotations

from functools import cache
from typing import Any

from tilework.graph.aten.convert import CONVERTERS


@cache
def decompositions() -> dict[Any, Any]:
    """PyTorch's decompositions to core operators, but for operators that have a converter."""
    import torch

    table = torch._decomp.core_aten_decompositions()
    return {op: how for op, how in table.items() if not _converted(op)}


def _converted(op: Any) -> bool:
    space, _, name = str(op).partition(".")
    return space == "aten" and (name in CONVERTERS or name.split(".")[0] in CONVERTERS)
