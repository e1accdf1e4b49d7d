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
    microsoft,
    normal,
    qonnx,
    quantised,
    random,
    reductions,
    regions,
    resize,
    sampling,
    slices,
    spectra,
    views,
    windows,
)

_FAMILIES = (
    windows, matrices, normal, elementwise, activations, reductions, views, slices, indexing,
    resize, sampling, regions, spectra, quantised, random,
)  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    op: convert for family in _FAMILIES for op, convert in family.CONVERTERS.items()
}


def converter(domain: str, op: str) -> Converter | None:
    """What converts an operator; None if nothing does."""
    if domain in ("", "ai.onnx"):
        return CONVERTERS.get(op) or microsoft.IN_THE_STANDARD_DOMAIN.get(op)
    if domain in qonnx.DOMAINS:
        return qonnx.CONVERTERS.get(op)
    return microsoft.CONVERTERS.get(op) if domain == "com.microsoft" else None


__all__ = ["CONVERTERS", "converter"]
