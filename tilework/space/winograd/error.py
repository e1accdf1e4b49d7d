"""Rounding error of a Winograd form with given weights, estimated on a sample of outputs.

The form is computed in float32 as the kernel does, the direct form in float64, on a few tiles of
data and those output channels whose weights are largest, plus some others (of each group, those of
the largest in any). Half of the tiles hold unit normal data, half of them its absolute value, as
after a ReLU.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.space.winograd.matrices import data_matrix, result_matrix
from tilework.space.winograd.weights import WeightTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TILES = 4
_CHANNELS = 8


def rounding_error(transform: WeightTransform, weight: NDArray[Any]) -> float:
    """Largest error over the largest output, the larger of the two kinds of data.

    Args:
        transform: of the form.
        weight: the layer's own weights, of shape ``transform.source``.

    Returns:
        The estimate; infinite where either form overflows or the weights are not finite.
    """
    chosen, some = _sample(transform, weight)
    m, axes = transform.tile, len(transform.window)
    taps = transform.taps
    alpha = m + taps - 1
    direct = _points_first(chosen, some)
    u = chosen.apply(some).reshape(alpha**axes, -1, direct.shape[-1])
    rng = np.random.default_rng(0)
    shape = (*(alpha,) * axes, _TILES, u.shape[1])
    normal = rng.standard_normal(shape).astype(np.float32)
    with np.errstate(all="ignore"):
        return max(_error(m, taps, axes, d, u, direct) for d in (normal, np.abs(normal)))


def _sample(
    transform: WeightTransform, weight: NDArray[Any]
) -> tuple[WeightTransform, NDArray[Any]]:
    """The weights of a few output channels, and the transform of their shape."""
    out = transform.rest[-1]
    others = tuple(d for d in range(weight.ndim) if d != out)
    size = np.maximum(weight.max(axis=others), -weight.min(axis=others))
    size = np.where(np.isnan(size), np.inf, size)
    count = len(size)
    largest = np.argsort(-size, kind="stable")[:_CHANNELS]
    spread = np.linspace(0, count - 1, min(_CHANNELS, count)).astype(int)
    picked = np.array(sorted({*largest.tolist(), *spread.tolist()}))
    source = tuple(len(picked) if d == out else s for d, s in enumerate(transform.source))
    chosen = replace(transform, source=source)
    where: Any = (*(slice(None),) * out, picked)
    return chosen, weight[where]  # `np.take` would copy all of a view first


def _points_first(transform: WeightTransform, weight: NDArray[Any]) -> NDArray[Any]:
    """The weights as a float64 array (taps of the tiles, all other sums, groups and channels)."""
    order = (*transform.window, *transform.rest)
    gone = [d for d in range(weight.ndim) if d not in order]
    flat = weight.transpose((*order, *gone)).astype(np.float64)
    windows = transform.taps ** len(transform.window)
    outputs = math.prod(weight.shape[d] for d in transform.rest[-transform.outputs :])
    return flat.reshape(windows, -1, outputs)


def _error(
    m: int, taps: int, axes: int, data: NDArray[Any], u: NDArray[Any], weight: NDArray[Any]
) -> float:
    """Error of one sample of data: (points of the tile.., tiles, sums)."""
    v = _along(data_matrix(m, taps), data, axes).reshape(len(u), *data.shape[axes:])
    products = (v @ u).reshape(*data.shape[: axes + 1], -1)
    got = _along(result_matrix(m, taps), products, axes)
    want = np.zeros(got.shape)
    exact = data.astype(np.float64)
    for i, at in enumerate(np.ndindex(*(taps,) * axes)):
        part = exact[tuple(slice(t, t + m) for t in at)]
        want += part @ weight[i]
    error = float(np.abs(got - want).max() / np.abs(want).max())
    return error if np.isfinite(error) else np.inf


def _along(matrix: Any, data: NDArray[Any], axes: int) -> NDArray[Any]:
    """The matrix times the data along each of its first ``axes`` dimensions, in float32."""
    rows = np.array(matrix, np.float32)
    for i in range(axes):
        data = np.moveaxis(np.tensordot(rows, data, axes=(1, i)), 0, i)
    return data
