"""What each ONNX operator becomes in a network, a family a module.

A converter takes the importer's context and the ONNX node, and returns the name of the value that
it built, a list of names where the node has several outputs (None for those it does not offer),
or an array where the result is known at import.
"""

from __future__ import annotations

from tilework.graph.onnx.context import Converter
from tilework.graph.onnx.convert import (
    activations,
    elementwise,
    indexing,
    matrices,
    normal,
    reductions,
    slices,
    views,
    windows,
)

_FAMILIES = (
    windows, matrices, normal, elementwise, activations, reductions, views, slices, indexing,
)  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    op: convert for family in _FAMILIES for op, convert in family.CONVERTERS.items()
}
"""Of the standard's operators that most models consist of; others are in `rarer`."""


def converter(domain: str, op: str) -> Converter | None:
    """What converts an operator; None if nothing does."""
    if domain in ("", "ai.onnx") and op in CONVERTERS:
        return CONVERTERS[op]
    from tilework.graph.onnx.convert import rarer

    return rarer.converter(domain, op)


__all__ = ["CONVERTERS", "converter"]
