"""Random numbers with a seed, which are drawn at import: every run has the same.

The generator is Philox (Salmon et al., 2011; NumPy's `Philox`), with the bits of the seed, a
float32, as its key. A number of [0, 1) is the upper 53 of 64 bits; normal ones are made of pairs
of these by Box and Muller's formula. Each node draws anew, so that two with the same seed are
equal. What ONNX Runtime draws for a seed are other numbers of the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes
from tilework.graph.onnx.convert.elementwise import element_type
from tilework.graph.onnx.convert.sampling import computed
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import value
from tilework.graph.operators import MAX_ELEMENTS
from tilework.graph.operators.base import FLOATS

Numbers = NDArray[np.floating[Any]]


def uniform(seed: float, count: int) -> Numbers:
    """``count`` numbers of [0, 1)."""
    bits = np.random.Philox(key=int(np.float32(seed).view(np.uint32))).random_raw(count)
    return (bits >> np.uint64(11)) * 2.0**-53


def gaussian(seed: float, count: int) -> Numbers:
    """``count`` numbers of mean 0 and deviation 1."""
    radius, angle = uniform(seed, 2 * count).reshape(2, count)
    return np.asarray(np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * np.pi * angle))


def _drawn(
    c: OnnxContext, a: dict[str, Any], shape: Sequence[int], draw: Callable[[float, int], Numbers]
) -> Numbers:
    """Numbers for a node with attributes ``a``.

    Raises:
        Unsupported: it has no seed, or draws too many.
    """
    if "seed" not in a:
        raise Unsupported("it has no seed; set its attribute 'seed', or make the numbers an input")
    count = math.prod(shape)
    if min(shape, default=1) < 1 or count > MAX_ELEMENTS or not c.budget.take(32 * count):
        raise Unsupported(f"random numbers of shape {list(shape)} are empty or too many")
    return draw(float(a["seed"]), count).reshape(shape)


def _normal(c: OnnxContext, a: dict[str, Any], shape: Sequence[int], dtype: str) -> NDArray[Any]:
    drawn = _drawn(c, a, shape, gaussian) * a.get("scale", 1.0) + a.get("mean", 0.0)
    return np.asarray(drawn, numpy_dtype(dtype))


def _uniform(c: OnnxContext, a: dict[str, Any], shape: Sequence[int], dtype: str) -> NDArray[Any]:
    low, high = a.get("low", 0.0), a.get("high", 1.0)
    drawn = _drawn(c, a, shape, uniform) * (high - low) + low
    return np.asarray(drawn, numpy_dtype(dtype))


def _of_shape(draw: Callable[..., NDArray[Any]], c: OnnxContext, node: NodeProto) -> NDArray[Any]:
    a = attributes(node)
    return draw(c, a, tuple(a["shape"]), _float(a.get("dtype", 1)))


def _like(draw: Callable[..., NDArray[Any]], c: OnnxContext, node: NodeProto) -> NDArray[Any]:
    a = attributes(node)
    (name,) = node.input
    own = c.constants[name].dtype.name if name in c.constants else value(c, name).dtype
    if "dtype" not in a and own not in FLOATS:
        raise Unsupported(f"random numbers of {own}; set its attribute 'dtype'")
    return draw(c, a, c.sizes(name), _float(a["dtype"]) if "dtype" in a else own)


def _float(number: int) -> str:
    dtype = element_type(number)
    if dtype not in FLOATS:
        raise Unsupported(f"random numbers of {dtype}")
    return dtype


def _bernoulli(c: OnnxContext, node: NodeProto) -> str:
    """1 with the probability that the input says, else 0."""
    a = attributes(node)
    x = value(c, node.input[0])
    drawn = _drawn(c, a, x.sizes, uniform)
    wide = x.cast("float64")  # a probability of 1 is above every number that is drawn
    return (
        (wide > wide.constant(drawn))
        .cast(element_type(a["dtype"]) if "dtype" in a else x.dtype)
        .name
    )


def _multinomial(c: OnnxContext, node: NodeProto) -> str:
    """Classes by their logarithmic probabilities: how many partial sums a number has passed."""
    a = attributes(node)
    x = value(c, node.input[0])
    if len(x.sizes) != 2:
        raise Unsupported(f"an input of shape {list(x.sizes)} instead of [N, classes]")
    (n, classes), samples = x.sizes, int(a.get("sample_size", 1))
    drawn = _drawn(c, a, (n, samples, 1), uniform)
    shares = computed(x).cast("float64").op("softmax", axis=1)
    sums = shares.op("cumulative", axis=1, kind="sum", exclusive=False, reverse=False)
    passed = (sums.reshape(n, 1, classes) <= sums.constant(drawn)).cast(
        element_type(a.get("dtype", 6))
    )
    count = passed.op("reduce_sum", axes=(2,), keepdims=False)
    return count.op("minimum", classes - 1).name


CONVERTERS: dict[str, Converter] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": partial(_of_shape, _normal),
    "RandomNormalLike": partial(_like, _normal),
    "RandomUniform": partial(_of_shape, _uniform),
    "RandomUniformLike": partial(_like, _uniform),
}
