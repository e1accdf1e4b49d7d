"""What few models have, imported by the first operator that is not among the usual ones."""

from __future__ import annotations

from tilework.graph.onnx.context import Converter
from tilework.graph.onnx.convert import (
    microsoft,
    qonnx,
    quantised,
    random,
    recurrent,
    regions,
    resize,
    sampling,
    spectra,
)

_FAMILIES = (resize, sampling, regions, spectra, quantised, random, recurrent)

CONVERTERS: dict[str, Converter] = {
    op: convert for family in _FAMILIES for op, convert in family.CONVERTERS.items()
}


def converter(domain: str, op: str) -> Converter | None:
    """See `tilework.graph.onnx.convert.converter`."""
    if domain in qonnx.DOMAINS:
        return qonnx.CONVERTERS.get(op)
    if domain in ("", "ai.onnx"):
        return CONVERTERS.get(op, microsoft.IN_THE_STANDARD_DOMAIN.get(op))
    return microsoft.CONVERTERS.get(op) if domain == "com.microsoft" else None
