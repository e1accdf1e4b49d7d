"""Operators that rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value
from tilework.index.extents import Extent, known_shape


def _reshape(c: AtenContext, x: Any, *args: Any) -> Value:
    """The shape of the result is what the node's example has."""
    return c.reshape(c.value(x), c.result_shape())


def _permute(c: AtenContext, x: Any, dims: Sequence[int]) -> Value:
    v = c.value(x)
    return c.transpose(v, [d % c.rank(v) for d in dims])


def _transpose(c: AtenContext, x: Any, a: int, b: int) -> Value:
    v = c.value(x)
    rank = c.rank(v)
    perm = list(range(rank))
    if rank:
        perm[a % rank], perm[b % rank] = perm[b % rank], perm[a % rank]
    return c.transpose(v, perm)


def _matrix_transpose(c: AtenContext, x: Any) -> Value:
    v = c.value(x)
    return c.transpose(v, range(c.rank(v))[::-1])


def _expand(c: AtenContext, x: Any, shape: Any, **kwargs: Any) -> Value:
    return c.expand(c.value(x), c.result_shape())


def _as_strided(
    c: AtenContext, x: Any, size: Any, stride: Any, offset: int | None = None
) -> Value:
    """Only what changes nothing but the strides of single elements, as pooling writes it."""
    v = c.value(x)
    own = map(c.extent, c.node.all_input_nodes[0].meta["val"].stride())
    moves = any(a != b and n != 1 for a, b, n in zip(own, stride, c.shape(v), strict=False))
    if offset or tuple(size) != c.shape(v) or moves:
        raise Unsupported("of another layout")
    return v


def _concat(c: AtenContext, tensors: Sequence[Any], dim: int = 0) -> Value:
    dtype = c.output_dtype()
    values = [c.value(x, dtype) for x in tensors if 0 not in c.shape(x)]
    if not values:
        return c.constant(np.empty(known_shape(c.result_shape()), numpy_dtype(dtype)))
    if len(values) == 1:
        return values[0]
    return c.op("concat", *values, axis=c.axis(dim, c.rank(values[0])))


def _stack(c: AtenContext, tensors: Sequence[Any], dim: int = 0) -> Value:
    dtype, result = c.output_dtype(), c.result_shape()
    axis = dim % len(result)
    one = (*result[:axis], 1, *result[axis + 1 :])
    values = [c.reshape(c.value(x, dtype), one) for x in tensors]
    return values[0] if len(values) == 1 else c.op("concat", *values, axis=axis)


def _repeat(c: AtenContext, x: Any, repeats: Sequence[Extent]) -> Value:
    v = c.value(x)
    own = (1,) * (len(repeats) - c.rank(v)) + c.shape(v)
    v = c.reshape(v, own)
    if set(repeats) <= {1}:
        return v
    factors = tuple(int(r) for r in repeats if isinstance(r, int))
    if len(factors) == len(own):
        return c.op("tile", v, factors=factors)
    both = [n for pair in zip(repeats, own, strict=True) for n in pair]
    v = c.reshape(v, [n if d % 2 else 1 for d, n in enumerate(both)])
    return c.reshape(c.expand(v, both), c.result_shape())


def _pixel_shuffle(c: AtenContext, x: Any, block: int) -> Value:
    v = c.value(x)
    if c.rank(v) != 4:
        raise Unsupported(f"of {c.rank(v)} dimensions")
    return c.op("depth_to_space", v, block=int(block), mode="CRD", layout="NCHW")


CONVERTERS: dict[str, Converter] = {
    **{
        name: _reshape
        for name in (
            "view.default", "_unsafe_view", "reshape", "_reshape_copy", "squeeze", "unsqueeze",
            "flatten", "view_copy.default",
        )
    },
    "permute": _permute,
    "transpose.int": _transpose,
    "t": _matrix_transpose,
    "expand": _expand,
    "as_strided": _as_strided,
    "cat": _concat,
    "stack": _stack,
    "repeat": _repeat,
    "pixel_shuffle": _pixel_shuffle,
}  # fmt: skip
