"""How scales and zero points are spread over quantised numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import Unsupported
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.values import Value, constant
from tilework.graph.operators import Shape
from tilework.index.extents import known, known_shape


def spread(of: Shape, shape: Shape, a: dict[str, Any]) -> tuple[Shape, int, int]:
    """How a scale of shape ``of`` is spread over ``shape``.

    Returns:
        Its new shape, the dimension along which it is repeated, and how often.

    Raises:
        Unsupported: it does not fit.
    """
    if math.prod(of) == 1:
        return (1,) * len(shape), 0, 1
    axis = normal(a.get("axis", 1) if len(shape) > 1 else 0, len(shape))
    block = int(a.get("block_size", 0))
    others = [d for d in range(len(shape)) if d != axis]
    if not block and [n for n in of if n != 1] == [shape[axis]]:  # NNCF adds dimensions of 1
        return tuple(n if d == axis else 1 for d, n in enumerate(shape)), 0, 1
    times = min(block, known(shape[axis]))
    in_blocks = block > 0 and len(of) == len(shape) and of[axis] == -(-shape[axis] // block)
    if in_blocks and all(of[d] == shape[d] for d in others):
        return of, axis, times
    raise Unsupported(f"a scale of shape {list(of)} does not fit {list(shape)} along axis {axis}")


def over(given: Value, shape: Shape, a: dict[str, Any]) -> Value:
    """A scale or zero point that broadcasts to ``shape``."""
    own, axis, times = spread(given.shape, shape, a)
    if times == 1:
        new, held = own if shape else (), given.c.b.constants.get(given.name)
        return (
            given.reshape(*new)
            if held is None
            else constant(given.c, held.reshape(known_shape(new)))
        )
    factors = [times if d == axis else 1 for d in range(len(shape))]
    return given.op("repeat", factors=tuple(factors)).part(axis, 0, shape[axis])


def plain(scale: Value, shape: Shape, a: dict[str, Any]) -> bool:
    """Whether a scale is one number, or a vector along a dimension."""
    return spread(scale.shape, shape, a)[2] == 1


def repeated(
    array: NDArray[Any], shape: tuple[int, ...], own: Shape, axis: int, times: int
) -> NDArray[np.float32]:
    """A scale or zero point as `spread` says, so that it broadcasts to ``shape``."""
    if not shape:
        return array.astype(np.float32).reshape(())
    wide = np.repeat(array.astype(np.float32).reshape(known_shape(own)), times, axis)
    return wide.take(range(shape[axis]), axis) if times > 1 else wide
