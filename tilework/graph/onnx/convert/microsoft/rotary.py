"""Rotary position embedding: pairs of elements turned by an angle that the position decides."""

from __future__ import annotations

import math

import numpy as np

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes
from tilework.graph.onnx.convert.microsoft.masks import positions
from tilework.graph.onnx.convert.slices import along, sliced
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.operators import Shape
from tilework.index.extents import Extent


def rotated(
    c: OnnxContext, x: str, angles: tuple[str, str], *, interleaved: bool, name: str
) -> str:
    """``x`` with the first elements of its last dimension turned in pairs.

    A pair (a, b) becomes (a cos - b sin, b cos + a sin): each element times the cosine, plus its
    partner times the sine, whose sign it decides. So there is nothing to be concatenated.

    Args:
        angles: cosines [..., pairs] and signed sines, from `taken_angles`.
        interleaved: pairs are neighbours; otherwise the second elements follow all first ones.
    """
    cos, sin = angles
    shape = c.b.shape(x)
    axis, pairs = len(shape) - 1, c.b.shape(cos)[-1]
    rest = shape[axis] - 2 * pairs
    turned = along(c, x, axis, 0, 2 * pairs, f"{name}_part")
    inner = (pairs, 2) if interleaved else (2, pairs)
    split = c.op("reshape", turned, shape=(*shape[:-1], *inner))
    begin, stride = [0] * (axis + 2), [1] * (axis + 2)
    begin[axis + interleaved], stride[axis + interleaved] = 1, -1
    partners = sliced(c, split, begin, c.b.shape(split), stride, f"{name}_partners")
    column = (pairs, 1) if interleaved else (1, pairs)
    cos = c.op("reshape", cos, shape=(*c.b.shape(cos)[:-1], *column))
    y = c.op("add", c.op("multiply", split, cos), c.op("multiply", partners, sin))
    y = c.op("reshape", y, name=name, shape=(*shape[:-1], 2 * pairs))
    if not rest:
        return y
    return c.op("concat", y, along(c, x, axis, 2 * pairs, rest, f"{name}_rest"), axis=axis)


def taken_angles(
    c: OnnxContext,
    caches: tuple[str, str],
    places: str,
    shape: Shape,
    *,
    interleaved: bool,
) -> tuple[str, str]:
    """Rows of the tables of cosines and sines, for `rotated`.

    Args:
        caches: ONNX names of the tables [M, pairs].
        places: value of the positions.
        shape: of the result, without the pairs.

    Returns:
        Cosines [*shape, pairs], and sines with a sign for both of a pair: [*shape, pairs, 2] where
        pairs are interleaved, else [*shape, 2, pairs].
    """
    cos, sin = (c.value(cache) for cache in caches)
    rows, pairs = c.b.shape(sin)
    if c.b.shape(cos) != (rows, pairs):
        raise Unsupported(
            f"cosines of shape {list(c.b.shape(cos))} and sines of {[rows, pairs]} do not match"
        )
    signs = np.array([-1, 1]).astype(c.b.types[sin].dtype)
    column, row = ((pairs, 1), (1, 2)) if interleaved else ((1, pairs), (2, 1))
    signed = c.op(
        "multiply",
        c.op("reshape", sin, shape=(rows, *column)),
        c.b.constant(signs.reshape(row), "signs"),
    )
    cos = c.op("take", cos, places, axis=0)
    signed = c.op("take", signed, places, axis=0)
    inner = c.b.shape(signed)[-2:]
    return (
        c.op("reshape", cos, shape=(*shape, pairs)),
        c.op("reshape", signed, shape=(*shape, *inner)),
    )


def from_first(c: OnnxContext, first: str, count: Extent) -> str:
    """The positions [1, count] that follow each other from the value ``first`` on."""
    steps = positions(c, count, 1)
    if c.b.types[first].dtype != "int32":
        steps = c.op("cast", steps, to=c.b.types[first].dtype)
    one = c.op("reshape", first, shape=(1, 1))
    return c.op("add", one, steps)


def _rotary(c: OnnxContext, node: NodeProto) -> str:
    """ONNX Runtime's CPU kernel reads ``scale`` and does nothing with it; nor does this."""
    a, name = attributes(node), node.output[0]
    if a.get("is_packed_batching", 0):
        raise Unsupported("is_packed_batching is not supported; give sequences of one length")
    x, shape = c.value(node.input[0]), c.shape(node.input[0])
    places, caches = c.value(node.input[1]), (node.input[2], node.input[3])
    heads, dim = int(a.get("num_heads", 0)), int(a.get("rotary_embedding_dim", 0))
    pairs, flag = c.shape(caches[0])[1], bool(a.get("interleaved", 0))
    if len(shape) == 3:
        width = shape[2] // heads if heads else 2 * pairs
        split = (*shape[:2], shape[2] // width, width)
    elif len(shape) == 4:
        split, width = shape, shape[3]
    else:
        raise Unsupported(f"its input has {len(shape)} dimensions instead of 3 or 4")
    if 2 * pairs != (dim or width) or math.prod(split) != math.prod(shape):
        raise Unsupported(
            f"{pairs} pairs in the tables do not fit an input of shape {list(shape)} with "
            f"rotary_embedding_dim {dim} and num_heads {heads}"
        )
    length = shape[-2] if len(shape) == 4 else shape[1]
    if math.prod(c.b.shape(places)) == 1:
        places = from_first(c, places, length)
    batch = c.b.shape(places)[0]
    around = (batch, 1, length) if len(shape) == 4 else (batch, length, 1)
    angles = taken_angles(c, caches, places, around, interleaved=flag)
    if len(shape) == 4:
        return rotated(c, x, angles, interleaved=flag, name=name)
    x = c.op("reshape", x, shape=split)
    y = rotated(c, x, angles, interleaved=flag, name=f"{name}_heads")
    return c.op("reshape", y, name=name, shape=shape)


CONVERTERS: dict[str, Converter] = {"RotaryEmbedding": _rotary}
