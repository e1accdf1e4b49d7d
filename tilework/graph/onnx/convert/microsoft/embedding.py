"""Embeddings of words, positions and segments, and their layer norm."""

from __future__ import annotations

import numpy as np

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.microsoft.norms import normalized, scaled
from tilework.graph.onnx.convert.slices import along
from tilework.graph.onnx.protos import NodeProto
from tilework.index.extents import Extent, known


def _embed(c: OnnxContext, node: NodeProto) -> Result:
    """The norm of the sum of the embeddings; the length of each sequence; the sum."""
    name = node.output[0]
    ids, segments, words, positions, kinds, gamma, beta, mask, places = (
        optional(node, i) for i in range(9)
    )
    shape = c.shape(ids)
    if len(shape) != 2:
        raise Unsupported(f"input_ids have {len(shape)} dimensions instead of 2")
    x = c.op("take", c.value(words), c.value(ids), axis=0)
    if places:
        by_place = c.op("take", c.value(positions), c.value(places), axis=0)
    else:
        if c.shape(positions)[0] < shape[1]:
            raise Unsupported(f"{shape[1]} positions, and {c.shape(positions)[0]} embeddings")
        by_place = along(c, c.value(positions), 0, 0, shape[1], f"{name}_positions")
    x = c.op("add", x, by_place)
    if segments and kinds:
        x = c.op("add", x, c.op("take", c.value(kinds), c.value(segments), axis=0))
    y = normalized(c, x, float(attributes(node).get("epsilon", 1e-12)), center=True)
    return [scaled(c, y, gamma, beta, name), _lengths(c, mask, shape[0]), x]


def _lengths(c: OnnxContext, mask: str, batch: Extent) -> str | np.ndarray:
    """How many ones each row of the mask has; 0 without one."""
    if not mask:
        return np.zeros(known(batch), np.int32)
    m = c.value(mask)
    one = c.b.constant(np.ones((), c.b.types[m].dtype), "one")
    ones = c.op("cast", c.op("equal", m, one), to="int32")
    return c.op("reduce_sum", ones, axes=(1,), keepdims=False)


CONVERTERS: dict[str, Converter] = {"EmbedLayerNormalization": _embed}
