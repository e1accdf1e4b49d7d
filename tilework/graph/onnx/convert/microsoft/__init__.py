"""Operators of the domain ``com.microsoft``, which ONNX Runtime's optimisers write.

They are built from the same operators of the network as the patterns that they were fused from, so
that the passes see both alike. The source is ONNX Runtime's page of contributed operators; where
its CPU kernels compute something else, these are followed, and a comment says so.
"""

from __future__ import annotations

from tilework.graph.onnx.context import Converter
from tilework.graph.onnx.convert import quantised_operators
from tilework.graph.onnx.convert.microsoft import (
    activations,
    attention,
    embedding,
    gathered,
    grouped,
    norms,
    others,
    packed,
    products,
    recurrent,
    rotary,
)

_FAMILIES = (
    activations, attention, embedding, gathered, grouped, norms, others, packed, products,
    quantised_operators, recurrent, rotary,
)  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    op: convert for family in _FAMILIES for op, convert in family.CONVERTERS.items()
}

IN_THE_STANDARD_DOMAIN = others.IN_THE_STANDARD_DOMAIN

__all__ = ["CONVERTERS", "IN_THE_STANDARD_DOMAIN"]
