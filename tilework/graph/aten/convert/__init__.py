"""What each core operator becomes; keys are ATen's names, with an overload or for all of them.

Names of other libraries of PyTorch stand behind their library's.
"""

from __future__ import annotations

from tilework.graph.aten.context import Converter
from tilework.graph.aten.convert import (
    activations,
    arithmetic,
    attention,
    indexing,
    matrices,
    normal,
    quantised,
    reductions,
    slices,
    views,
    windows,
)

_FAMILIES = (
    activations, arithmetic, attention, indexing, matrices, normal, quantised,
    reductions, slices, views, windows,
)  # fmt: skip

CONVERTERS: dict[str, Converter] = {k: v for f in _FAMILIES for k, v in f.CONVERTERS.items()}

__all__ = ["CONVERTERS"]
