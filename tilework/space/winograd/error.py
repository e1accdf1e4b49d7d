"""Rounding error of a Winograd form with given weights, estimated on a sample of outputs.

The form is computed in float32 as the kernel does, the direct form in float64, on a few tiles of
data and those output channels whose weights are largest, plus some others (of each group, those of
the largest in any). Half of the tiles hold unit normal data, half of them its absolute value, as
after a ReLU.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
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
    points = math.prod(chosen.shape[: len(chosen.window)])
    direct = _points_first(chosen, some)
    u = chosen.apply(some).reshape(points, -1, direct.shape[-1])
    with np.errstate(all="ignore"):
        return _error(transform, u, direct)


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


@lru_cache(maxsize=1)
def _data(m: int, taps: int, axes: int, sums: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tiles of both kinds of data, (points of the tile.., tiles, sums): in double; transformed.

    Layers of one size are neighbours: the last tiles are kept, which take as long as the rest.
    """
    alpha = m + taps - 1
    shape = (*(alpha,) * axes, _TILES, sums)
    normal = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    data = np.concatenate([normal, np.abs(normal)], axis=axes)
    v = _along(data_matrix(m, taps), data, axes)
    return data.astype(np.float64), v.reshape(-1, *data.shape[axes:])


def _error(transform: WeightTransform, u: NDArray[Any], weight: NDArray[Any]) -> float:
    """The error with transformed weights, and with these: (points or taps, sums, outputs)."""
    m, taps, axes = transform.tile, transform.taps, len(transform.window)
    exact, v = _data(m, taps, axes, u.shape[1])
    products = (v @ u).reshape(*exact.shape[: axes + 1], -1)
    got = _along(result_matrix(m, taps), products, axes)
    want = np.zeros(got.shape)
    for i, at in enumerate(np.ndindex(*(taps,) * axes)):
        part = exact[tuple(slice(t, t + m) for t in at)]
        want += part @ weight[i]
    error, size = (np.abs(x).reshape(m**axes, 2, -1).max(axis=(0, 2)) for x in (got - want, want))
    worst = float((error / size).max())
    return worst if np.isfinite(worst) else np.inf


def _along(matrix: Any, data: NDArray[Any], axes: int) -> NDArray[Any]:
    """The matrix times the data along each of its first ``axes`` dimensions, in float32."""
    rows = np.array(matrix, np.float32)
    for i in range(axes):
        data = np.moveaxis(np.tensordot(rows, data, axes=(1, i)), 0, i)
    return data
